module cellserver/test/programs/limiters

go 1.26.0

require (
	github.com/go-redis/redis/v8 v8.11.4
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/go-redis/redis_rate/v9 v9.1.2
	github.com/gomodule/redigo v1.8.9
	github.com/redis/go-redis/v9 v9.0.5
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
