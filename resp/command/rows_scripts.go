package command

import "math"

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
// are. As in Redis it reads the number as C's atoi does, though the command itself refuses what is no integer.
func countedKeys(words [][]byte) [][]byte {
	if len(words) < 3 {
		return nil
	}
	n := atoi(words[2])
	if n < 1 || int(n) > len(words)-3 {
		return nil
	}
	return words[3 : 3+int(n)]
}

// atoi reads a number as atoi of glibc does: after white space, with a sign, up to what is no digit; 0 if there is none. A number beyond
// 64 bits becomes the nearest of 64, and keeps the lower 32 bits.
func atoi(b []byte) int32 {
	i, negative := 0, false
	for i < len(b) && (b[i] == ' ' || b[i] >= '\t' && b[i] <= '\r') {
		i++
	}
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		negative = b[i] == '-'
		i++
	}
	n := uint64(0)
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if n > math.MaxInt64/10 {
			n = 1 << 63
			break
		}
		n = min(n*10+uint64(b[i]-'0'), 1<<63)
	}
	if negative {
		return int32(-int64(n))
	}
	return int32(min(n, math.MaxInt64))
}
