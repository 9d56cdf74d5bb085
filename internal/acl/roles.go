package acl

// Roles are rules for the two usual kinds of users. Give them to ACL SETUSER after the rules of the single user:
// whether it is on, its passwords, and for RoleLimit its keys. They override all earlier rules about commands. They
// must not be modified. SECURITY.md shows them, and a test compares.
var (
	// RoleLimit asks limits and does nothing else: the commands of @throttle, alone and in transactions, those about
	// the own connection, and those with which client libraries find out at their start whom they talk to. It cannot
	// refund: it lacks Refund. It says nothing about keys.
	RoleLimit = []string{"-@all", "+@throttle", "+@connection", "-@dangerous", "+command", "+info", "+role", "+cluster|slots", "+cluster|shards",
		"+multi", "+exec", "+discard"}

	// RoleAdmin may run every command, on every key.
	RoleAdmin = []string{"~*", "&*", "+@all"}
)
