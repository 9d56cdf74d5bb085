package script

import "math"

// The scripts that count requests in windows of a fixed length. Every number behind at is the line of the script's text that an
// error names.

// flexible is rate-limiter-flexible: the window opens with the first request, of which SET NX takes care.
func flexible(c *call) {
	c.at(1).set(1, num(0), exSecondsX, c.arg(2))
	consumed := c.incrBy(1, c.arg(1))
	ttl := c.pttl(1)
	if ttl.number == -1 {
		c.expire(1, c.arg(2))
		ttl = num(1000 * c.operand(c.arg(2), "field '?'"))
	}
	c.returnsArray(consumed, ttl)
}

// flexibleValkey is the same for iovalkey, which leaves a key without an expiry as it is.
func flexibleValkey(c *call) {
	c.at(2).set(1, num(0), exSecondsX, c.arg(2))
	consumed := c.at(3).incrBy(1, c.arg(1))
	c.returnsArray(consumed, c.at(4).pttl(1))
}

// expressIncrement is rate-limit-redis 4.0.0 to 4.2.2. Until 4.2.0 an expiry in less than a millisecond counts as none.
func expressIncrement(atZero bool) func(c *call) {
	return func(c *call) {
		hits := c.at(1).incr(1)
		ttl := c.at(2).pttl(1)
		if ttl.number < 0 || atZero && ttl.number == 0 || c.arg(1).is("1") {
			ttl = c.arg(2).toNumber()
			c.at(5).pexpire(1, ttl)
		}
		c.returnsArray(hits, ttl)
	}
}

// expressWindow is rate-limit-redis since 4.2.3. It sets what has no expiry to 1.
func expressWindow(c *call) {
	window, resets := c.arg(2).toNumber(), c.arg(1).is("1")
	ttl := c.at(3).pttl(1)
	if ttl.number <= 0 {
		c.at(5).set(1, num(1), pxMillis, window)
		c.returnsArray(num(1), window)
		return
	}
	hits := c.at(8).incr(1)
	if resets {
		c.at(10).pexpire(1, window)
		ttl = window
	}
	c.returnsArray(hits, ttl)
}

// expressWindow6 is rate-limit-redis 6, which no longer extends a window.
func expressWindow6(c *call) {
	window := c.arg(1).toNumber()
	ttl := c.at(2).pttl(1)
	if ttl.number <= 0 {
		c.at(4).set(1, num(1), pxMillis, window)
		c.returnsArray(num(1), window)
		return
	}
	c.returnsArray(c.at(7).incr(1), ttl)
}

// expressGet is the reading script of rate-limit-redis.
func expressGet(c *call) {
	hits := c.at(1).get(1)
	c.returnsArray(hits, c.at(2).pttl(1))
}

// fastifyBan is @fastify/rate-limit 8 and 9.
func fastifyBan(c *call) {
	window, most, ban := c.arg(1).toNumber(), c.arg(2).toNumber(), c.arg(3).toNumber()
	current := c.at(14).incr(1)
	ttl := c.at(17).pttl(1)
	if ttl.number == -1 || c.arg(4).is("true") && c.at(20).less(most, current) {
		c.at(21).pexpire(1, window)
		ttl = window
	}
	banned := luaFalse
	if !equal(ban, num(-1)) && c.at(25).less(ban, num(current.number-c.operand(most, "local 'max'"))) {
		banned = luaTrue
	}
	c.returnsArray(current, ttl, banned)
}

// fastify10 is @fastify/rate-limit 10.0 and 10.1.
func fastify10(c *call) {
	window, most := c.arg(1).toNumber(), c.arg(2).toNumber()
	current := c.at(12).incr(1)
	ttl := c.at(15).pttl(1)
	if ttl.number == -1 || c.arg(3).is("true") && c.at(18).less(most, current) {
		c.at(19).pexpire(1, window)
		ttl = window
	}
	c.returnsArray(current, ttl)
}

// backoff is what a window of @fastify/rate-limit becomes when more requests than most have come: it doubles with each, up to the
// largest integer that JavaScript counts to.
func (c *call) backoff(window, most, current value) value {
	const maxSafeInteger = 1<<53 - 1
	longer := c.operand(window, "local 'timeWindow'") * math.Pow(2, current.number-most.number-1)
	return num(luaMin(longer, maxSafeInteger))
}

// fastify102 is @fastify/rate-limit 10.2.
func fastify102(c *call) {
	window, most := c.arg(1).toNumber(), c.arg(2).toNumber()
	current := c.at(18).incr(1)
	ttl := c.at(21).pttl(1)
	switch {
	case ttl.number == -1 || c.arg(3).is("true") && c.at(24).less(most, current):
		c.at(25).pexpire(1, window)
		ttl = window
	case c.arg(4).is("true") && c.at(29).less(most, current):
		ttl = c.at(31).backoff(window, most, current)
		c.at(32).pexpire(1, ttl)
	}
	c.returnsArray(current, ttl)
}

// fastify103 is @fastify/rate-limit since 10.3, which asks for the expiry only if it has not set it.
func fastify103(c *call) {
	window, most := c.arg(1).toNumber(), c.arg(2).toNumber()
	current := c.at(17).incr(1)
	switch {
	case current.number == 1 || c.arg(3).is("true") && c.at(19).less(most, current):
		c.at(20).pexpire(1, window)
	case c.arg(4).is("true") && c.at(21).less(most, current):
		window = c.at(23).backoff(window, most, current)
		c.at(24).pexpire(1, window)
	default:
		window = c.at(26).pttl(1)
	}
	c.returnsArray(current, window)
}

// fastifyRead is the reading script of @fastify/rate-limit.
func fastifyRead(c *call) {
	current := c.at(6).get(1)
	if !current.truthy() {
		c.returnsArray(num(0), num(0))
		return
	}
	ttl := c.at(16).pttl(1)
	c.returnsArray(current.toNumber(), num(max(0, ttl.number)))
}

// nest is @nest-lab/throttler-storage-redis: KEYS[1] counts, KEYS[2] says that the client is blocked.
func nest(c *call) {
	ttl, limit, duration := c.arg(2).toNumber(), c.arg(3).toNumber(), c.arg(4).toNumber()
	hits := c.at(7).incr(1)
	expires := c.at(8).pttl(1)
	if expires.number <= 0 {
		c.at(10).pexpire(1, ttl)
		expires = ttl
	}
	blocked := c.at(13).get(2).truthy()
	left := num(0)
	if blocked {
		left = c.at(16).pttl(2)
	} else if c.at(17).less(limit, hits) {
		c.at(18).set(2, num(1), pxMillis, duration)
		blocked, left = true, duration
	}
	if blocked && left.number <= 0 { // the block never expires, and is lifted
		c.at(23).del(2)
		c.at(24).set(1, num(1), pxMillis, ttl)
		hits, expires, blocked = num(1), ttl, false
	}
	flag := num(0)
	if blocked {
		flag = num(1)
	}
	c.returnsArray(hits, expires, flag, left)
}

// limitsWindow is the fixed window of limits since 2.3.
func limitsWindow(c *call) {
	amount := c.arg(2).toNumber()
	current := c.at(3).incrBy(1, amount)
	if equal(current, amount) {
		c.at(6).expire(1, c.arg(1))
	}
	c.returns(current)
}

// limitsWindow2 is that of limits 2.1 and 2.2.
func limitsWindow2(c *call) {
	current := c.at(2).incr(1)
	if current.number == 1 {
		c.at(5).expire(1, c.arg(1))
	}
	c.returns(current)
}

// ulule is ulule/limiter: a window opens when the count is what the request has added.
func ulule(c *call) {
	count, ttl := c.arg(1).toNumber(), c.arg(2).toNumber()
	sum := c.at(5).incrBy(1, c.arg(1))
	if !equal(sum, count) {
		ttl = c.at(12).pttl(1)
	} else if c.at(7).less(num(0), ttl) {
		c.at(8).pexpire(1, c.arg(2))
	}
	c.returnsArray(sum, ttl)
}

// ululePeek is the reading script of ulule/limiter.
func ululePeek(c *call) {
	v := c.at(3).get(1)
	if v.kind == isFalse {
		c.returnsArray(num(0), num(0))
		return
	}
	ttl := c.at(7).pttl(1)
	c.returnsArray(v.toNumber(), ttl)
}

// zeroPeriod is the period limit of go-zero: 1 says that there is room, 2 that this was the last, and 0 that there was none. first
// is the line of its first command. firstIsOne admits the first request of a period whatever the limit.
func zeroPeriod(first int, firstIsOne bool) func(c *call) {
	return func(c *call) {
		limit, window := c.arg(1).toNumber(), c.arg(2).toNumber()
		current := c.at(first).incrBy(1, num(1))
		if current.number == 1 {
			c.at(first+2).expire(1, window)
			if firstIsOne {
				c.returns(num(1))
				return
			}
		}
		switch {
		case c.at(first+4).less(current, limit):
			c.returns(num(1))
		case equal(current, limit):
			c.returns(num(2))
		default:
			c.returns(num(0))
		}
	}
}

// slidingAcquire is the sliding window counter of limits: the window before counts in proportion to what is left of its expiry.
// KEYS[1] counts the window before, KEYS[2] the current one.
func slidingAcquire(c *call) {
	limit := c.arg(1).toNumber()
	expiry := c.at(4).operand(c.arg(2).toNumber(), "") * 1000
	amount := c.arg(3).toNumber()
	if c.at(7).less(limit, amount) {
		c.returns(luaFalse)
		return
	}
	if ttl := c.at(11).pttl(2).number; ttl > 0 && ttl < expiry {
		c.at(15).rename(2, 1)
		c.at(16).set(2, num(0), pxMillis, num(ttl+expiry))
	}
	previous := c.at(19).get(1).toNumber().orZero().number
	previousTTL := max(0, c.at(20).pttl(1).number)
	current := c.at(21).get(2).toNumber().orZero().number
	weighted := math.Floor(float64(previous*previousTTL)/expiry) + current
	switch {
	case c.at(33).less(limit, num(weighted+amount.number)):
		c.returns(luaFalse)
		return
	case c.at(38).exists(2).number == 1:
		c.at(39).incrBy(2, amount)
	default:
		c.at(42).set(2, amount, pxMillis, num(expiry*2))
	}
	c.returns(luaTrue)
}

// slidingRead is the reading script of the same. It moves a window that has ended, too.
func slidingRead(c *call) {
	expiry := c.at(1).operand(c.arg(1).toNumber(), "") * 1000
	read := func(line int) (count, ttl value) { return c.at(line).get(1), c.at(line + 1).pttl(1) }
	readCurrent := func(line int) (count, ttl value) { return c.at(line).get(2), c.at(line + 1).pttl(2) }
	previous, previousTTL := read(2)
	current, ttl := readCurrent(4)
	if ttl.number > 0 && ttl.number < expiry {
		c.at(9).rename(2, 1)
		c.at(10).set(2, num(0), pxMillis, num(ttl.number+expiry))
		previous, previousTTL = read(11)
		current, ttl = readCurrent(13)
	}
	c.returnsArray(previous, previousTTL, current, ttl)
}
