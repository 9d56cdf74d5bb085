package acl

import "strings"

// redisNames are the commands of Redis without its modules: those of 7.0, with which a test compares them, and those
// added since in Redis 7.2 to 8.8 and Valkey 8 and 9. Each line has a container with subcommands of it, or commands that
// are no containers.
const redisNames = `
append asking auth bgrewriteaof bgsave bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush
bzmpop bzpopmax bzpopmin clusterscan copy dbsize debug decr decrby del delex delifeq digest discard dump echo eval
eval_ro evalsha evalsha_ro exec exists expire expireat expiretime failover fcall fcall_ro flushall flushdb gcra geoadd
geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get
getbit getdel getex getrange getset hdel hello hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex
hincrby hincrbyfloat hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset
hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat increx info keys lastsave lcs lindex linsert llen lmove lmpop
lolwut lpop lpos lpush lpushx lrange lrem lset ltrim mget migrate monitor move mset msetex msetnx multi persist
pexpire pexpireat pexpiretime pfadd pfcount pfdebug pfmerge pfselftest ping psetex psubscribe psync pttl publish
punsubscribe quit randomkey readonly readwrite rename renamenx replconf replicaof reset restore restore-asking role
rpop rpoplpush rpush rpushx sadd save scan scard sdiff sdiffstore select set setbit setex setnx setrange shutdown
sinter sintercard sinterstore sismember slaveof smembers smismember smove sort sort_ro spop spublish srandmember srem
sscan ssubscribe strlen subscribe substr sunion sunionstore sunsubscribe swapdb sync time touch ttl type unlink
unsubscribe unwatch vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim wait
waitaof watch xack xackdel xadd xautoclaim xcfgset xclaim xdel xdelex xlen xpending xrange xread xreadgroup xrevrange
xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore zpopmax
zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank
zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore
acl: cat deluser dryrun genpass getuser help list load log save setuser users whoami
client: caching capa getname getredir help id import-source info kill list no-evict no-touch pause reply setinfo
client: setname tracking trackinginfo unblock unpause
cluster: addslots addslotsrange bumpepoch cancelslotmigrations count-failure-reports countkeysinslot delslots
cluster: delslotsrange failover flushslot flushslots forget getkeysinslot getslotmigrations help info keyslot links meet
cluster: migrateslots migration myid myshardid nodes replicas replicate reset saveconfig set-config-epoch setslot shards slaves
cluster: slot-stats slots syncslots
command: count docs getkeys getkeysandflags help info list
commandlog: get help len reset
config: get help resetstat rewrite set
function: delete dump flush help kill list load restore stats
hotkeys: get help reset start stop
latency: doctor graph help histogram history latest reset
memory: doctor help malloc-stats purge stats usage
module: help list load loadex unload
object: encoding freq help idletime refcount
pubsub: channels help numpat numsub shardchannels shardnumsub
script: debug exists flush help kill load show
slowlog: get help len reset
xgroup: create createconsumer delconsumer destroy help setid
xinfo: consumers groups help stream
`

// addRedisNames makes the commands of Redis known that the table does not have. Rules may name them, so that one file of
// users serves both, and change nothing.
func (t *table) addRedisNames() {
	for line := range strings.Lines(redisNames) {
		container, names, isContainer := strings.Cut(strings.TrimSpace(line), ": ")
		if !isContainer {
			for _, name := range strings.Fields(container) {
				t.addRedisName(name)
			}
			continue
		}
		t.addRedisName(container)
		for _, name := range strings.Fields(names) {
			t.addRedisName(container + "|" + name)
		}
	}
}

func (t *table) addRedisName(name string) {
	if t.knows(name) {
		return
	}
	t.elsewhere[name] = true
	t.addSub(name)
}
