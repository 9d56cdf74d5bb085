package command

import "cellserver/resp/frame"

// scriptRows returns the rows of the commands on scripts.
func scriptRows() []Row {
	const runs = Stale | NoScript | MovableKeys | Scripts | Decides | NonBlocking
	args := func(script string) []Arg {
		return []Arg{text(script), integer("numkeys"), optional(keysArg), optional(multiple(text("arg")))}
	}
	row := func(name, script string, more Flags, summary string) Row {
		use := "RW access update"
		if more&ReadOnly != 0 {
			use = "RO access"
		}
		return Row{Name: name, Arity: -3, Flags: runs | more, Group: GroupScripting, CountedKeys: 2, Find: countedKeys, Uses: []string{use},
			Args: args(script), Summary: summary, Cost: "Depends on the script."}
	}
	return []Row{
		row("eval", "script", ByText, "Run a script that is known, or that is one call of a command."),
		row("eval_ro", "script", ByText|ReadOnly, "Run a script as EVAL does, and refuse what writes."),
		row("evalsha", "sha1", 0, "Run a script by the SHA-1 of its text."),
		row("evalsha_ro", "sha1", ReadOnly, "Run a script as EVALSHA does, and refuse what writes."),
		{Name: "script", Arity: -2, Group: GroupScripting, Summary: "Ask which scripts are known.", Cost: "Depends on subcommand.",
			Subs: []Row{
				{Name: "exists", Arity: -3, Flags: NoScript, Args: []Arg{multiple(text("sha1"))},
					Summary: "Tell of scripts whether they are known.", Cost: "O(N) with N scripts"},
				{Name: "flush", Arity: -2, Flags: NoScript, Args: []Arg{flushHow},
					Summary: "Forget the scripts that are calls of a command; those that are always known stay.", Cost: "O(N) with N scripts"},
				helpRow,
				{Name: "load", Arity: 3, Flags: NoScript | Stale, Args: []Arg{text("script")},
					Summary: "Return the SHA-1 of a script that is known, or that is one call of a command.", Cost: "O(N) with N bytes of text"},
			}},
	}
}

// countedKeys returns the keys of a command whose word 2 says how many of the following words are keys; none if it says more than there
// are.
func countedKeys(words [][]byte) [][]byte {
	if len(words) < 3 {
		return nil
	}
	n, ok := frame.ParseInt(words[2])
	if !ok || n < 0 || n > int64(len(words)-3) {
		return nil
	}
	return words[3 : 3+n]
}
