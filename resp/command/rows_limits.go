package command

import "cellserver/resp/limits"

// limitRows returns the rows of the limit commands: one for each kind of limit, and those for all kinds.
func limitRows() []Row {
	var rows []Row
	var checks []Arg
	kinds := limits.Kinds()
	for i := range kinds {
		k := &kinds[i]
		rows = append(rows, limitRow(k))
		checks = append(checks, after(k.Word, checkOf(k)))
	}
	return append(rows,
		Row{Name: "cl.all", Arity: -6, Flags: Write | DenyOOM | MovableKeys | Decides | NonBlocking, Group: GroupLimit,
			Find:    func(words [][]byte) [][]byte { return limits.Keys(words[1:]) },
			Args:    []Arg{multiple(oneOf("check", checks...)), peekArg, msArg},
			Summary: "Ask several limits at once: all of them are taken, or none is.",
			Cost:    "O(N) with N checks, at most 64"},
		Row{Name: "cl.get", Arity: -2, Flags: ReadOnly | Fast | NonBlocking, Group: GroupLimit, Keys: oneKey, Args: []Arg{keyArg, token("STRINGS")},
			Summary: "Return what a bucket holds, by name; times in nanoseconds of Unix time, with STRINGS as strings of digits.",
			Cost:    "O(1); O(log N) for a sliding log of N admissions"},
		Row{Name: "gcra", Arity: -5, Flags: Write | DenyOOM | Fast | Decides | NonBlocking, Group: GroupLimit, Keys: oneKey,
			Args:    []Arg{keyArg, integer("max_burst"), integer("tokens_per_period"), period, optional(after("TOKENS", integer("tokens")))},
			Summary: "Ask a GCRA limit, as CL.THROTTLE does, by the name that clients have a typed call for.",
			Cost:    "O(1)"},
	)
}

// limitRow returns the row of the command that asks for one limit of a kind.
func limitRow(k *limits.Kind) Row {
	request := []Arg{integer("quantity")}
	if k.Aligns {
		request = append(request, alignArg)
	}
	args := append(parametersOf(k), optional(block("request", append(request, peekArg, msArg)...)))
	return Row{Name: k.Name(), Arity: -1 - k.Words(), Flags: Write | DenyOOM | Fast | Decides | NonBlocking, Group: GroupLimit,
		Keys: oneKey, Args: args, Summary: k.Summary, Cost: k.Cost}
}

// alignArg is the option of kinds with windows on the calendar.
var alignArg = optional(after("ALIGN", offset))

// checkOf returns one check of a kind in CL.ALL.
func checkOf(k *limits.Kind) Arg {
	args := append(parametersOf(k), integer("quantity"))
	if k.Aligns {
		args = append(args, alignArg)
	}
	return block(k.Kind.String(), args...)
}

// parametersOf returns the key and the parameters of a kind.
func parametersOf(k *limits.Kind) []Arg {
	args := []Arg{keyArg}
	for _, p := range k.Integers {
		args = append(args, integer(p.Name))
	}
	return append(args, period)
}
