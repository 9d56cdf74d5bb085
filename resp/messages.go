package resp

import "cellserver/resp/frame"

// The texts of replies, in Redis's words where Redis has the same error.
const (
	errSyntax         = frame.ErrSyntax
	errNotInteger     = frame.ErrNotInteger
	errNotPositive    = "ERR value is out of range, must be positive"
	errWrongType      = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errNoMemory       = "OOM command not allowed when used memory > 'maxmemory'."
	errNoSuchKey      = "ERR no such key"
	errDBIndex        = "ERR DB index is out of range"
	errFirstDB        = "ERR invalid first DB index"
	errSecondDB       = "ERR invalid second DB index"
	errSameObject     = "ERR source and destination objects are the same"
	errInternal       = "ERR internal error: this command was abandoned, see the server's log"
	errNoAuth         = "NOAUTH Authentication required."
	errNoCommand      = "NOPERM User %s has no permissions to run the '%s' command"
	errNoKey          = "NOPERM No permissions to access a key"
	errRevoked        = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: "
	errRevokedCommand = errRevoked + "no permission to execute the command or subcommand"
	errRevokedKey     = errRevoked + "no permission to touch the specified keys"
	noSuchKeyRight    = "User %s has no permissions to access the '%s' key" // of ACL DRYRUN
	errAuthNoPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errACLCategory    = "ERR Unknown category '%s'"
	errACLUser        = "ERR User '%s' not found"
	errACLCommand     = "ERR Command '%s' not found"
	errNoACLFile      = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."
	errACLSave        = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"

	errLoading    = "LOADING Redis is loading the dataset in memory"
	errScheduled  = "ERR Background append only file rewriting already in progress: ask again when it is done"
	errShutdown   = "ERR Errors trying to SHUTDOWN. Check logs."
	errNoShutdown = "ERR No shutdown in progress."
	errMaxClients = "ERR max number of clients reached"

	errCrossSlot    = "CROSSSLOT Keys in request don't hash to the same slot"
	errClusterDown  = "CLUSTERDOWN %s"
	errNoReplicas   = "NOREPLICAS Not enough good replicas to write."
	errNotOffered   = "ERR not possible while the keys are in an engine (the option store)"
	errClusterMode  = "ERR %s is not allowed in cluster mode"
	errForeignValue = "ERR the key holds a value that cellserver has not written"

	errKeyTooLong = "ERR key is longer than max-key-bytes (%d)"
	errLogFull    = "ERR the log of this key is full (zslide-max-log %d)"
	errArity      = "ERR wrong number of arguments for '%s' command"
	errUnknown    = "ERR unknown command '%s', with args beginning with: %s"
	errUnknownSub = "ERR unknown subcommand '%s'. Try %s HELP."

	errMultiFull     = "ERR a transaction may queue at most %d commands (multi-max-commands)"
	errMultiWalk     = "ERR KEYS and SCAN may visit at most %d keys in one transaction (multi-max-commands)"
	errNestedMulti   = "ERR MULTI calls can not be nested"
	errNoMulti       = "ERR %s without MULTI"
	errNoWatch       = "ERR WATCH is not supported by this store"
	errWatchInMulti  = "ERR WATCH inside MULTI is not allowed"
	errNotInMulti    = "ERR Command not allowed inside a transaction"
	errMonitorInExec = "ERR MONITOR isn't allowed for DENY BLOCKING client"
	errExecAborted   = "EXECABORT Transaction discarded because of previous errors."

	errExecRejected = "EXECABORT Transaction discarded because of: %s"

	errNoScript        = "NOSCRIPT No matching script. Please use EVAL."
	errManyKeys        = "ERR Number of keys can't be greater than number of args"
	errNegativeKeys    = "ERR Number of keys can't be negative"
	errScriptFlush     = "ERR SCRIPT FLUSH only support SYNC|ASYNC option"
	errScriptCommand   = "ERR Unknown Redis command called from script"
	errScriptArity     = "ERR Wrong number of args calling Redis command from script"
	errScriptForbidden = "ERR This Redis command is not allowed from script"
	errScriptRights    = "ERR The user executing the script can't run this command or subcommand"
	errScriptKey       = "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
	errUnknownScript   = "ERR unknown script %s: cellserver runs no Lua, only the scripts it knows (see 'cellserver scripts') " + errScripts

	errScripts = "(cellserver runs no scripts: CL.THROTTLE, CL.WINDOW and CL.ZSLIDE each decide atomically in one command, CL.ALL on several limits)"

	errProtoNotInteger = "ERR Protocol version is not an integer or out of range"
	errNoProto         = "NOPROTO unsupported protocol version"
	errHelloNoAuth     = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errHelloSyntax     = "ERR Syntax error in HELLO option '%s'"
	errWrongPass       = "WRONGPASS invalid username-password pair or user is disabled."
	errTimeoutInteger  = "ERR timeout is not an integer or out of range"
	errCachingNo       = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
	errTimeoutNegative = "ERR timeout is negative"
	errNoCluster       = "ERR This instance has cluster support disabled"

	errUnblockReason = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"
	errSubArity      = "ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP."
	errNotLFU        = "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errNoSamples     = "ERR No samples available for event '%s'"
	errNoDebug       = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server."
	errNotFloat      = "ERR value is not a valid float"
	errSleepRange    = "ERR value is out of range, must be between 0 and %d"

	errClientName     = "ERR Client names cannot contain spaces, newlines or special characters."
	errClientInfo     = "ERR %s cannot contain spaces, newlines or special characters."
	errClientInfoName = "ERR Unrecognized option '%s'"
	errNoSuchClient   = "ERR No such client"
	errPauseMode      = "ERR CLIENT PAUSE mode must be WRITE or ALL"
	errSlowlogCount   = "ERR count should be greater than or equal to -1"
	errCaching        = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"

	errConfigUnknown = "ERR Unknown option or number of arguments for CONFIG SET - '%s'"
	errNoConfigFile  = "ERR The server is running without a config file"
	errRewrite       = "ERR Rewriting config file: %s"
	errConfigFailed  = "ERR CONFIG SET failed (possibly related to argument '%s') - %s"
)

// errProtected is Redis's text without its sentence on CONFIG REWRITE.
const errProtected = "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for " +
	"the default user. In this mode connections are only accepted from the loopback interface. If you want to connect from " +
	"external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode sending the " +
	"command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same host the server " +
	"is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. 2) Alternatively you can just " +
	"disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and " +
	"then restarting the server. 3) If you started the server manually just for testing, restart it with the " +
	"'--protected-mode no' option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one " +
	"of the above things in order for the server to start accepting connections from the outside."
