package command

// transactionRows returns the rows of the commands of transactions.
func transactionRows() []Row {
	return []Row{
		{Name: "discard", Arity: 1, Flags: Fast | Loading | Stale | AllowBusy | Unqueued | NonBlocking | NoScript, Group: GroupTransactions,
			Summary: "Forget the commands that MULTI queued, and what WATCH watches.", Cost: "O(N) with N queued commands"},
		{Name: "exec", Arity: 1, Flags: Loading | Stale | Unqueued | NoScript, Group: GroupTransactions,
			Summary: "Run the commands that MULTI queued, as one.", Cost: "Depends on the commands."},
		{Name: "multi", Arity: 1, Flags: Fast | Loading | Stale | AllowBusy | Unqueued | NonBlocking | NoScript, Group: GroupTransactions,
			Summary: "Queue what follows until EXEC.", Cost: "O(1)"},
		{Name: "unwatch", Arity: 1, Flags: Fast | Loading | Stale | AllowBusy | NonBlocking | NoScript, Group: GroupTransactions,
			Summary: "Forget what WATCH watches.", Cost: "O(N) with N watched keys"},
		{Name: "watch", Arity: -2, Flags: Fast | Loading | Stale | AllowBusy | Unqueued | NonBlocking | NoScript, Group: GroupTransactions, Keys: allKeys, Uses: looks,
			Args: []Arg{keysArg}, Summary: "Let EXEC run only if none of the keys has been changed until then.",
			Cost: "O(N) with N keys"},
	}
}
