package persistence

// Waiting makes a call as those of OS that may take long are made.
func Waiting(call func() error) error { return waiting(call) }
