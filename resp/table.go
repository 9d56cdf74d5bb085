package resp

// Pieces that many rows share.
var (
	keyArg  = arg{name: "key", kind: argKey}
	keysArg = arg{name: "key", kind: argKey, multiple: true}
	peekArg = token("PEEK")
	msArg   = token("MS")
	period  = arg{name: "period", kind: argDouble}
	offset  = arg{name: "offset", kind: argDouble}
	onOff   = arg{name: "enabled", kind: argOneOf, args: []arg{token("ON"), token("OFF")}}
	// deadlineIf is the condition of EXPIRE and its kin.
	deadlineIf = arg{name: "condition", kind: argOneOf, optional: true,
		args: []arg{token("NX"), token("XX"), token("GT"), token("LT")}}
	flushHow = arg{name: "flush-type", kind: argOneOf, optional: true, args: []arg{token("ASYNC"), token("SYNC")}}
)

func integer(name string) arg { return arg{name: name, kind: argInteger} }
func text(name string) arg    { return arg{name: name, kind: argString} }
func optional(a arg) arg      { a.optional = true; return a }
func multiple(a arg) arg      { a.multiple = true; return a }
func block(name string, parts ...arg) arg {
	return arg{name: name, kind: argBlock, args: parts}
}
func oneOf(name string, choices ...arg) arg {
	return arg{name: name, kind: argOneOf, args: choices}
}

// after is a, written behind a word.
func after(word string, a arg) arg { a.token = word; return a }

// helpRow is the HELP of a container.
var helpRow = command{name: "help", arity: 2, flags: loading | stale, summary: "Print this help.", cost: "O(1)", run: help}

// newTable is the command table. Dispatch, arity, COMMAND and its DOCS, the counts of INFO and the README's table are all
// made from it; adding a command is adding a row, a function and a transcript.
func newTable() *commands {
	return newCommands([]command{
		// Limits.
		{name: "cl.throttle", arity: -5, flags: write | denyOOM | fast | decides, group: groupLimit, keys: oneKey,
			args: []arg{keyArg, integer("max_burst"), integer("count"), period,
				optional(block("request", integer("quantity"), peekArg, msArg))},
			summary: "Ask a GCRA limit: count requests per period of seconds on average, and max_burst more at once.",
			cost:    "O(1)", run: throttle},
		{name: "cl.window", arity: -4, flags: write | denyOOM | fast | decides, group: groupLimit, keys: oneKey,
			args: []arg{keyArg, integer("limit"), period,
				optional(block("request", integer("quantity"),
					optional(after("ALIGN", offset)), peekArg, msArg))},
			summary: "Ask a fixed window: at most limit per window of period seconds, opened by its first admission or on the calendar.",
			cost:    "O(1)", run: window},
		{name: "cl.zslide", arity: -4, flags: write | denyOOM | fast | decides, group: groupLimit, keys: oneKey,
			args: []arg{keyArg, integer("limit"), period,
				optional(block("request", integer("quantity"), peekArg, msArg))},
			summary: "Ask an exact sliding window: at most limit in any period seconds.",
			cost:    "O(1) amortised; O(log N) with N admissions in the window for a quantity above 1 that is refused", run: zslide},
		{name: "cl.all", arity: -6, flags: write | denyOOM | movableKeys | decides, group: groupLimit, find: keysOfAll,
			args: []arg{multiple(oneOf("check",
				after("THROTTLE", block("throttle", keyArg, integer("max_burst"), integer("count"), period, integer("quantity"))),
				after("WINDOW", block("window", keyArg, integer("limit"), period, integer("quantity"), optional(after("ALIGN", offset)))),
				after("ZSLIDE", block("zslide", keyArg, integer("limit"), period, integer("quantity"))))), peekArg, msArg},
			summary: "Ask several limits at once: all of them are taken, or none is.",
			cost:    "O(N) with N checks, at most 64", run: all},
		{name: "cl.get", arity: 2, flags: readonly | fast, group: groupLimit, keys: oneKey, args: []arg{keyArg},
			summary: "Return what a bucket holds, by name; times in nanoseconds of Unix time.",
			cost:    "O(1); O(log N) for a sliding log of N admissions", run: get},

		// Keys.
		{name: "dbsize", arity: 1, flags: readonly | fast | keyspace, group: groupGeneric,
			summary: "Return the number of keys.", cost: "O(N) with N keys", run: dbSize},
		{name: "del", arity: -2, flags: write, group: groupGeneric, keys: allKeys, args: []arg{keysArg},
			summary: "Forget buckets: their keys are at their full limit again.", cost: "O(N) with N keys", run: del},
		{name: "exists", arity: -2, flags: readonly | fast, group: groupGeneric, keys: allKeys, args: []arg{keysArg},
			summary: "Count which of the keys exist.", cost: "O(N) with N keys", run: exists},
		{name: "expire", arity: -3, flags: write | fast, group: groupGeneric, keys: oneKey,
			args:    []arg{keyArg, integer("seconds"), deadlineIf},
			summary: "Forget a bucket after some seconds, if it is not full before.", cost: "O(1)", run: expire},
		{name: "expireat", arity: -3, flags: write | fast, group: groupGeneric, keys: oneKey,
			args:    []arg{keyArg, {name: "unix-time-seconds", kind: argUnix}, deadlineIf},
			summary: "Forget a bucket at a Unix time, if it is not full before.", cost: "O(1)", run: expireAt},
		{name: "expiretime", arity: 2, flags: readonly | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Return the Unix time at which a key expires.", cost: "O(1)", run: expireTime},
		{name: "flushall", arity: -1, flags: write | dangerous | keyspace, group: groupGeneric, args: []arg{flushHow},
			summary: "Forget every bucket.", cost: "O(N) with N keys", run: flush},
		{name: "flushdb", arity: -1, flags: write | dangerous | keyspace, group: groupGeneric, args: []arg{flushHow},
			summary: "Forget every bucket.", cost: "O(N) with N keys", run: flush},
		{name: "keys", arity: 2, flags: readonly | dangerous | keyspace, group: groupGeneric, args: []arg{{name: "pattern", kind: argPattern}},
			summary: "Return all keys that match a pattern.", cost: "O(N) with N keys", run: keysMatching},
		{name: "object", arity: -2, flags: readonly, group: groupGeneric, summary: "Look into how a key is kept.", cost: "O(1)",
			subs: []command{
				{name: "encoding", arity: 3, flags: readonly, keys: subKey, args: []arg{keyArg},
					summary: "Return what a bucket is kept as: tat, counter or log.", cost: "O(1)", run: objectEncoding},
				helpRow,
				{name: "refcount", arity: 3, flags: readonly, keys: subKey, args: []arg{keyArg},
					summary: "Return 1 for a key that exists.", cost: "O(1)", run: objectRefcount},
			}},
		{name: "persist", arity: 2, flags: write | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Remove the deadline that EXPIRE or its kin set.", cost: "O(1)", run: persist},
		{name: "pexpire", arity: -3, flags: write | fast, group: groupGeneric, keys: oneKey,
			args:    []arg{keyArg, integer("milliseconds"), deadlineIf},
			summary: "Forget a bucket after some milliseconds, if it is not full before.", cost: "O(1)", run: pexpire},
		{name: "pexpireat", arity: -3, flags: write | fast, group: groupGeneric, keys: oneKey,
			args:    []arg{keyArg, {name: "unix-time-milliseconds", kind: argUnix}, deadlineIf},
			summary: "Forget a bucket at a Unix time in milliseconds, if it is not full before.", cost: "O(1)", run: pexpireAt},
		{name: "pexpiretime", arity: 2, flags: readonly | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Return the Unix time in milliseconds at which a key expires.", cost: "O(1)", run: pexpireTime},
		{name: "pttl", arity: 2, flags: readonly | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Return the milliseconds until a key expires: until its bucket is full, or its deadline.", cost: "O(1)", run: pttl},
		{name: "randomkey", arity: 1, flags: readonly | keyspace, group: groupGeneric,
			summary: "Return a random key.", cost: "O(1)", run: randomKey},
		{name: "rename", arity: 3, flags: write, group: groupGeneric, keys: twoKeys,
			args:    []arg{keyArg, {name: "newkey", kind: argKey}},
			summary: "Give a bucket another key, with its state and its deadline.", cost: "O(1)", run: rename},
		{name: "renamenx", arity: 3, flags: write | fast, group: groupGeneric, keys: twoKeys,
			args:    []arg{keyArg, {name: "newkey", kind: argKey}},
			summary: "Give a bucket another key, unless that exists.", cost: "O(1)", run: renameNX},
		{name: "scan", arity: -2, flags: readonly | keyspace, group: groupGeneric,
			args: []arg{integer("cursor"), optional(after("MATCH", arg{name: "pattern", kind: argPattern})),
				optional(after("COUNT", integer("count"))), optional(after("TYPE", text("type")))},
			summary: "Visit the keys step by step; every key that lives through the whole scan is returned.",
			cost:    "O(COUNT) for each call", run: scan},
		{name: "touch", arity: -2, flags: readonly | fast, group: groupGeneric, keys: allKeys, args: []arg{keysArg},
			summary: "Count which of the keys exist.", cost: "O(N) with N keys", run: exists},
		{name: "ttl", arity: 2, flags: readonly | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Return the seconds until a key expires: until its bucket is full, or its deadline.", cost: "O(1)", run: ttl},
		{name: "type", arity: 2, flags: readonly | fast, group: groupGeneric, keys: oneKey, args: []arg{keyArg},
			summary: "Return the kind of a bucket: throttle, window, zslide or none.", cost: "O(1)", run: typeOf},
		{name: "unlink", arity: -2, flags: write | fast, group: groupGeneric, keys: allKeys, args: []arg{keysArg},
			summary: "Forget buckets, as DEL does.", cost: "O(N) with N keys", run: del},

		// Connections.
		{name: "client", arity: -2, group: groupConnection, summary: "Look at and set up connections.", cost: "Depends on subcommand.",
			subs: []command{
				{name: "caching", arity: 3, flags: loading | stale,
					args:    []arg{oneOf("mode", token("YES"), token("NO"))},
					summary: "Accepted from a client that tracks by OPTIN; nothing is ever cached.", cost: "O(1)", run: clientCaching},
				{name: "getname", arity: 2, flags: loading | stale,
					summary: "Return the name of this connection.", cost: "O(1)", run: clientGetName},
				helpRow,
				{name: "id", arity: 2, flags: loading | stale,
					summary: "Return the number of this connection.", cost: "O(1)", run: clientID},
				{name: "info", arity: 2, flags: loading | stale,
					summary: "Return what CLIENT LIST says of this connection.", cost: "O(1)", run: clientInfo},
				{name: "list", arity: -2, flags: admin | loading | stale,
					args: []arg{optional(after("TYPE", oneOf("client-type", token("NORMAL"), token("MASTER"), token("REPLICA"), token("PUBSUB")))),
						optional(after("ID", multiple(integer("client-id"))))},
					summary: "List the connections.", cost: "O(N) with N connections", run: clientList},
				{name: "no-evict", arity: 3, flags: admin | loading | stale, args: []arg{onOff},
					summary: "Accepted and shown; clients are never evicted.", cost: "O(1)", run: clientNoEvict},
				{name: "no-touch", arity: 3, flags: loading | stale, args: []arg{onOff},
					summary: "Accepted and shown; keys have no time of last use.", cost: "O(1)", run: clientNoTouch},
				{name: "reply", arity: 3, flags: loading | stale,
					args:    []arg{oneOf("action", token("ON"), token("OFF"), token("SKIP"))},
					summary: "Choose whether this connection gets replies.", cost: "O(1)", run: clientReply},
				{name: "setinfo", arity: 4, flags: loading | stale,
					args:    []arg{oneOf("attr", after("LIB-NAME", text("libname")), after("LIB-VER", text("libver")))},
					summary: "Tell the name or the version of the client's library.", cost: "O(1)", run: clientSetInfo},
				{name: "setname", arity: 3, flags: loading | stale, args: []arg{text("connection-name")},
					summary: "Name this connection.", cost: "O(1)", run: clientSetName},
				{name: "tracking", arity: -3, flags: loading | stale,
					args:    []arg{oneOf("status", token("ON"), token("OFF")), token("OPTIN")},
					summary: "Accept ON OPTIN, and OFF; nothing is ever cached.", cost: "O(1)", run: clientTracking},
			}},
		{name: "echo", arity: 2, flags: fast | loading | stale, group: groupConnection, args: []arg{text("message")},
			summary: "Return the message.", cost: "O(1)", run: echo},
		{name: "hello", arity: -1, flags: fast | loading | stale | noAuth | allowBusy, group: groupConnection,
			args: []arg{optional(block("arguments", integer("protover"),
				optional(after("AUTH", block("auth", text("username"), text("password")))),
				optional(after("SETNAME", text("clientname")))))},
			summary: "Greet the server, and choose RESP2 or RESP3.", cost: "O(1)", run: hello},
		{name: "ping", arity: -1, flags: fast, group: groupConnection, args: []arg{optional(text("message"))},
			summary: "Return PONG, or the message.", cost: "O(1)", run: ping},
		{name: "quit", arity: -1, flags: fast | loading | stale | noAuth | allowBusy | unqueued, group: groupConnection,
			summary: "Close the connection.", cost: "O(1)", run: quit},
		{name: "reset", arity: 1, flags: fast | loading | stale | noAuth | allowBusy | unqueued, group: groupConnection,
			summary: "Bring the connection back to how it began.", cost: "O(1)", run: reset},
		{name: "select", arity: 2, flags: fast | loading | stale, group: groupConnection, args: []arg{integer("index")},
			summary: "Choose the database: there is only 0.", cost: "O(1)", run: selectDB},

		// Transactions.
		{name: "discard", arity: 1, flags: fast | loading | stale | allowBusy | unqueued, group: groupTransactions,
			summary: "Forget the commands that MULTI queued, and what WATCH watches.", cost: "O(N) with N queued commands", run: discard},
		{name: "exec", arity: 1, flags: loading | stale | unqueued, group: groupTransactions,
			summary: "Run the commands that MULTI queued, as one.", cost: "Depends on the commands.", run: exec},
		{name: "multi", arity: 1, flags: fast | loading | stale | allowBusy | unqueued, group: groupTransactions,
			summary: "Queue what follows until EXEC.", cost: "O(1)", run: multi},
		{name: "unwatch", arity: 1, flags: fast | loading | stale | allowBusy, group: groupTransactions,
			summary: "Forget what WATCH watches.", cost: "O(N) with N watched keys", run: unwatch},
		{name: "watch", arity: -2, flags: fast | loading | stale | allowBusy | unqueued, group: groupTransactions, keys: allKeys,
			args: []arg{keysArg}, summary: "Let EXEC run only if none of the keys has been changed until then.",
			cost: "O(N) with N keys", run: watch},

		// The server.
		{name: "bgrewriteaof", arity: 1, flags: admin | noMulti, group: groupServer,
			summary: "Make the journal anew, in the background.", cost: "O(1) now, O(N) with N keys later", run: bgRewrite},
		{name: "bgsave", arity: -1, flags: admin | noMulti, group: groupServer, args: []arg{token("SCHEDULE")},
			summary: "Write a snapshot, in the background.", cost: "O(1) now, O(N) with N keys later", run: bgSave},
		{name: "cluster", arity: -2, flags: stale, group: groupServer, summary: "Answer that there is no cluster.", cost: "O(1)",
			subs: []command{
				helpRow,
				{name: "info", arity: 2, flags: stale, summary: "Answer that cluster support is disabled.", cost: "O(1)", run: noCluster},
			}},
		{name: "command", arity: -1, flags: loading | stale, group: groupServer,
			summary: "Describe all commands.", cost: "O(N) with N commands", run: commandAll,
			subs: []command{
				{name: "count", arity: 2, flags: loading | stale, summary: "Count the commands.", cost: "O(1)", run: commandCount},
				{name: "docs", arity: -2, flags: loading | stale, args: []arg{optional(multiple(text("command-name")))},
					summary: "Explain commands.", cost: "O(N) with N commands", run: commandDocs},
				{name: "getkeys", arity: -3, flags: loading | stale,
					args:    []arg{text("command"), optional(multiple(text("arg")))},
					summary: "Return the keys that a command names.", cost: "O(N) with N words", run: commandGetKeys},
				helpRow,
				{name: "info", arity: -2, flags: loading | stale, args: []arg{optional(multiple(text("command-name")))},
					summary: "Describe commands.", cost: "O(N) with N commands", run: commandInfo},
				{name: "list", arity: -2, flags: loading | stale,
					args: []arg{optional(after("FILTERBY", oneOf("filterby", after("MODULE", text("module-name")),
						after("ACLCAT", text("category")), after("PATTERN", arg{name: "pattern", kind: argPattern}))))},
					summary: "Name the commands.", cost: "O(N) with N commands", run: commandList},
			}},
		{name: "config", arity: -2, flags: admin, group: groupServer, summary: "Read and change options.", cost: "Depends on subcommand.",
			subs: []command{
				{name: "get", arity: -3, flags: admin | loading | stale, args: []arg{multiple(text("parameter"))},
					summary: "Return the options that match patterns.", cost: "O(N) with N options", run: configGet},
				helpRow,
				{name: "resetstat", arity: 2, flags: admin | loading | stale,
					summary: "Set the counts of INFO back to 0.", cost: "O(1)", run: configResetStat},
				{name: "set", arity: -4, flags: admin | loading | stale,
					args:    []arg{multiple(block("data", text("parameter"), text("value")))},
					summary: "Change options while the server runs, all or none.", cost: "O(N) with N options", run: configSet},
			}},
		{name: "info", arity: -1, flags: loading | stale | dangerous | keyspace, group: groupServer,
			args:    []arg{optional(multiple(text("section")))},
			summary: "Tell how the server does.", cost: "O(N) with N keys for the section Keyspace", run: info},
		{name: "lastsave", arity: 1, flags: fast | loading | stale | admin, group: groupServer,
			summary: "Tell when the last snapshot was written, in Unix seconds.", cost: "O(1)", run: lastSave},
		{name: "lolwut", arity: -1, flags: fast | readonly, group: groupServer,
			args:    []arg{optional(after("VERSION", integer("version")))},
			summary: "Draw a bucket, and tell the version.", cost: "O(1)", run: lolwut},
		{name: "memory", arity: -2, flags: readonly, group: groupServer, summary: "Tell what memory is used for.", cost: "Depends on subcommand.",
			subs: []command{
				{name: "doctor", arity: 2, summary: "Say whether the memory in use looks healthy.", cost: "O(1)", run: memoryDoctor},
				helpRow,
				{name: "purge", arity: 2, summary: "Give unused memory back to the system.", cost: "Depends on how much there is.", run: memoryPurge},
				{name: "stats", arity: 2, flags: keyspace, summary: "Return the numbers of INFO memory.", cost: "O(1)", run: memoryStats},
				{name: "usage", arity: -3, flags: readonly, keys: subKey, args: []arg{keyArg, optional(after("SAMPLES", integer("count")))},
					summary: "Return the bytes that a key and its bucket hold.", cost: "O(1)", run: memoryUsage},
			}},
		{name: "module", arity: -2, flags: admin, group: groupServer, summary: "Answer clients that look for modules.", cost: "Depends on subcommand.",
			subs: []command{
				helpRow,
				{name: "list", arity: 2, flags: admin, summary: "List redis-cell, whose command is built in.", cost: "O(1)", run: moduleList},
			}},
		{name: "readonly", arity: 1, flags: fast | loading | stale, group: groupServer,
			summary: "Answer that there is no cluster.", cost: "O(1)", run: noCluster},
		{name: "readwrite", arity: 1, flags: fast | loading | stale, group: groupServer,
			summary: "Answer that there is no cluster.", cost: "O(1)", run: noCluster},
		{name: "save", arity: 1, flags: admin | noMulti, group: groupServer,
			summary: "Write a snapshot, and answer when it is safe.", cost: "O(N) with N keys", run: save},
		{name: "shutdown", arity: -1, flags: admin | loading | stale | noMulti | allowBusy, group: groupServer,
			args:    []arg{optional(oneOf("save-selector", token("NOSAVE"), token("SAVE"))), token("NOW"), token("FORCE"), token("ABORT")},
			summary: "Stop the server, after a snapshot if any are configured or SAVE asks for one.", cost: "O(N) with N keys when saving", run: shutdown},
		{name: "time", arity: 1, flags: fast | loading | stale, group: groupServer,
			summary: "Return the time of the decision clock: Unix seconds, and microseconds.", cost: "O(1)", run: timeNow},
		{name: "wait", arity: 3, group: groupServer, args: []arg{integer("numreplicas"), integer("timeout")},
			summary: "Return 0 at once: there are no replicas to wait for.", cost: "O(1)", run: wait},
	})
}
