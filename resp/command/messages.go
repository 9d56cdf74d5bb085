package command

// The texts of errors, in Redis's words where Redis has the same error.
const (
	errCommandInvalid   = "ERR Invalid command specified"
	errCommandNoKeys    = "ERR The command has no key arguments"
	errCommandKeyWords  = "ERR Invalid arguments specified for command"
	errCommandArguments = "ERR Invalid number of arguments specified for command"
)
