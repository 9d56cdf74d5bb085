package command

// limitRows returns the rows of the limit commands.
func limitRows() []Row {
	return []Row{
		{Name: "cl.throttle", Arity: -5, Flags: Write | DenyOOM | Fast | Decides | NonBlocking, Group: GroupLimit, Keys: oneKey,
			Args: []Arg{keyArg, integer("max_burst"), integer("count"), period,
				optional(block("request", integer("quantity"), peekArg, msArg))},
			Summary: "Ask a GCRA limit: count requests per period of seconds on average, and max_burst more at once.",
			Cost:    "O(1)"},
		{Name: "cl.window", Arity: -4, Flags: Write | DenyOOM | Fast | Decides | NonBlocking, Group: GroupLimit, Keys: oneKey,
			Args: []Arg{keyArg, integer("limit"), period,
				optional(block("request", integer("quantity"),
					optional(after("ALIGN", offset)), peekArg, msArg))},
			Summary: "Ask a fixed window: at most limit per window of period seconds, opened by its first admission or on the calendar.",
			Cost:    "O(1)"},
		{Name: "cl.zslide", Arity: -4, Flags: Write | DenyOOM | Fast | Decides | NonBlocking, Group: GroupLimit, Keys: oneKey,
			Args: []Arg{keyArg, integer("limit"), period,
				optional(block("request", integer("quantity"), peekArg, msArg))},
			Summary: "Ask an exact sliding window: at most limit in any period seconds.",
			Cost:    "O(1) amortised; O(log N) with N admissions in the window for a quantity above 1 that is refused"},
		{Name: "cl.all", Arity: -6, Flags: Write | DenyOOM | MovableKeys | Decides | NonBlocking, Group: GroupLimit, Find: keysOfAll,
			Args: []Arg{multiple(oneOf("check",
				after("THROTTLE", block("throttle", keyArg, integer("max_burst"), integer("count"), period, integer("quantity"))),
				after("WINDOW", block("window", keyArg, integer("limit"), period, integer("quantity"), optional(after("ALIGN", offset)))),
				after("ZSLIDE", block("zslide", keyArg, integer("limit"), period, integer("quantity"))))), peekArg, msArg},
			Summary: "Ask several limits at once: all of them are taken, or none is.",
			Cost:    "O(N) with N checks, at most 64"},
		{Name: "cl.get", Arity: -2, Flags: ReadOnly | Fast | NonBlocking, Group: GroupLimit, Keys: oneKey, Args: []Arg{keyArg, token("STRINGS")},
			Summary: "Return what a bucket holds, by name; times in nanoseconds of Unix time, with STRINGS as strings of digits.",
			Cost:    "O(1); O(log N) for a sliding log of N admissions"},
	}
}
