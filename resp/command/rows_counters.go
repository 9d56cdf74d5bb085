package command

import "cellserver/resp/frame"

// Arguments of the commands on counters.
var (
	value       = text("value")
	expiryWords = []Arg{after("EX", integer("seconds")), after("PX", integer("milliseconds")),
		after("EXAT", Arg{Name: "unix-time-seconds", Kind: ArgUnix}), after("PXAT", Arg{Name: "unix-time-milliseconds", Kind: ArgUnix})}
)

// expiryOr returns the choice of an expiry, or of one more word.
func expiryOr(word string) Arg {
	words := append(append([]Arg{}, expiryWords...), token(word))
	return optional(oneOf("expiration", words...))
}

// counterRows returns the rows of the commands on counters: Redis's commands on strings that work on integers.
func counterRows() []Row {
	const (
		reads   = ReadOnly | Fast | NonBlocking
		assigns = Write | DenyOOM | NonBlocking | Short
		several = Write | DenyOOM | NonBlocking
		adds    = Write | DenyOOM | Fast | NonBlocking
	)
	inserts, overwrites, looks := []string{"OW insert"}, []string{"OW update"}, []string{"RO"}
	access, takesAway := []string{"RW access update"}, []string{"RW access delete"}
	return []Row{
		{Name: "decr", Arity: 2, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access, Args: []Arg{keyArg},
			Summary: "Subtract 1 from a counter; no key counts as 0.", Cost: "O(1)"},
		{Name: "decrby", Arity: 3, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access, Args: []Arg{keyArg, integer("decrement")},
			Summary: "Subtract a number from a counter; no key counts as 0.", Cost: "O(1)"},
		{Name: "get", Arity: 2, Flags: reads, Group: GroupString, Keys: oneKey, Args: []Arg{keyArg},
			Summary: "Return the value of a counter.", Cost: "O(1)"},
		{Name: "getdel", Arity: 2, Flags: Write | Fast | NonBlocking, Group: GroupString, Keys: oneKey, Uses: takesAway, Args: []Arg{keyArg},
			Summary: "Return the value of a counter, and delete it.", Cost: "O(1)"},
		{Name: "getex", Arity: -2, Flags: Write | Fast | NonBlocking, Group: GroupString, Keys: oneKey, Uses: access,
			Args:    []Arg{keyArg, expiryOr("PERSIST")},
			Summary: "Return the value of a counter, and set or remove its expiry.", Cost: "O(1)"},
		{Name: "getset", Arity: 3, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access, Args: []Arg{keyArg, value},
			Summary: "Set a counter, and return the value before.", Cost: "O(1)"},
		{Name: "incr", Arity: 2, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access, Args: []Arg{keyArg},
			Summary: "Add 1 to a counter; no key counts as 0.", Cost: "O(1)"},
		{Name: "incrby", Arity: 3, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access, Args: []Arg{keyArg, integer("increment")},
			Summary: "Add a number to a counter; no key counts as 0.", Cost: "O(1)"},
		{Name: "increx", Arity: -2, Flags: adds, Group: GroupString, Keys: oneKey, Uses: access,
			Args: []Arg{keyArg, optional(after("BYINT", integer("increment"))), optional(after("LBOUND", integer("lowest"))),
				optional(after("UBOUND", integer("highest"))), token("SATURATE"), expiryOr("PERSIST"), token("ENX")},
			Summary: "Add to a counter within bounds, and set its expiry; return the value and what was added.", Cost: "O(1)"},
		{Name: "mget", Arity: -2, Flags: reads, Group: GroupString, Keys: allKeys, Args: []Arg{keysArg},
			Summary: "Return the values of counters.", Cost: "O(N) with N keys"},
		{Name: "mset", Arity: -3, Flags: several, Group: GroupString, Keys: Keys{1, -1, 2}, Uses: overwrites,
			Args:    []Arg{multiple(block("data", keyArg, value))},
			Summary: "Set counters, all or none.", Cost: "O(N) with N keys"},
		{Name: "psetex", Arity: 4, Flags: assigns, Group: GroupString, Keys: oneKey, Uses: overwrites,
			Args:    []Arg{keyArg, integer("milliseconds"), value},
			Summary: "Set a counter that expires after some milliseconds.", Cost: "O(1)"},
		{Name: "set", Arity: -3, Flags: assigns, Group: GroupString, Keys: oneKey, Uses: []string{"RW access update variable_flags"}, UseOf: useOfSet,
			Args: []Arg{keyArg, value, optional(oneOf("condition", token("NX"), token("XX"), after("IFEQ", text("comparison-value")))),
				token("GET"), expiryOr("KEEPTTL")},
			Summary: "Set a counter, perhaps only if a condition holds.", Cost: "O(1)"},
		{Name: "setex", Arity: 4, Flags: assigns, Group: GroupString, Keys: oneKey, Uses: overwrites,
			Args:    []Arg{keyArg, integer("seconds"), value},
			Summary: "Set a counter that expires after some seconds.", Cost: "O(1)"},
		{Name: "setnx", Arity: 3, Flags: adds, Group: GroupString, Keys: oneKey, Uses: inserts, Args: []Arg{keyArg, value},
			Summary: "Set a counter unless the key exists.", Cost: "O(1)"},
		{Name: "strlen", Arity: 2, Flags: reads, Group: GroupString, Keys: oneKey, Uses: looks, Args: []Arg{keyArg},
			Summary: "Return how many characters the value of a counter has.", Cost: "O(1)"},
	}
}

// useOfSet returns what SET does with its key: as in Redis it only overwrites it, unless a word among its options asks for the
// value. IFEQ does, because it tells whether the value is the one that it names.
func useOfSet(words [][]byte) string {
	for _, w := range words[min(len(words), 3):] {
		if frame.Is(w, "GET") || frame.Is(w, "IFEQ") {
			return "RW access update"
		}
	}
	return "OW update"
}
