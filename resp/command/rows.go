package command

// Pieces that many rows share.
var (
	keyArg  = Arg{Name: "key", Kind: ArgKey}
	keysArg = Arg{Name: "key", Kind: ArgKey, Multiple: true}
	peekArg = token("PEEK")
	msArg   = token("MS")
	period  = Arg{Name: "period", Kind: ArgDouble}
	offset  = Arg{Name: "offset", Kind: ArgDouble}
	onOff   = Arg{Name: "enabled", Kind: ArgOneOf, Args: []Arg{token("ON"), token("OFF")}}
	// deadlineIf is the condition of EXPIRE and its kin.
	deadlineIf = Arg{Name: "condition", Kind: ArgOneOf, Optional: true,
		Args: []Arg{token("NX"), token("XX"), token("GT"), token("LT")}}
	flushHow = Arg{Name: "flush-type", Kind: ArgOneOf, Optional: true, Args: []Arg{token("ASYNC"), token("SYNC")}}
)

func integer(name string) Arg { return Arg{Name: name, Kind: ArgInteger} }
func text(name string) Arg    { return Arg{Name: name, Kind: ArgString} }
func optional(a Arg) Arg      { a.Optional = true; return a }
func multiple(a Arg) Arg      { a.Multiple = true; return a }
func block(name string, parts ...Arg) Arg {
	return Arg{Name: name, Kind: ArgBlock, Args: parts}
}
func oneOf(name string, choices ...Arg) Arg {
	return Arg{Name: name, Kind: ArgOneOf, Args: choices}
}

// after is a, written behind a word.
func after(word string, a Arg) Arg { a.Token = word; return a }

// What commands do with their keys, as key specifications have it, where it does not follow from their flags.
var (
	looks   = []string{"RO"}
	updates = []string{"RW update"}
	deletes = []string{"RM delete"}
)

// clusterless is the summary of what needs a cluster.
const clusterless = "Answer that cluster support is disabled."

// helpRow is the HELP of a container.
var helpRow = Row{Name: "help", Arity: 2, Flags: Loading | Stale, Summary: "Print this help.", Cost: "O(1)"}

// helpRowOf is helpRow with more flags.
func helpRowOf(more Flags) Row {
	row := helpRow
	row.Flags |= more
	return row
}
