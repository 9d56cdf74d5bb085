package acl

// Roles are rules for users that this server is made for, to be given to ACL SETUSER behind what is particular to a
// user: whether it is on, its passwords, and for RoleLimit its keys. Which commands the user had before does not matter.
// They are not to be changed.
var (
	// RoleLimit asks limits and does nothing else: the commands of @throttle, those about the own connection, and
	// COMMAND, which clients ask at their start. It cannot refund: it lacks Refund. It says nothing about keys.
	RoleLimit = []string{"-@all", "+@throttle", "+@connection", "-@dangerous", "+command"}

	// RoleAdmin may run every command, on every key.
	RoleAdmin = []string{"~*", "&*", "+@all"}
)
