package script

// The scripts of caches and locks: they set, compare and change one value.

// laravelAdd is add of Laravel's cache: SETEX unless the key exists.
func laravelAdd(c *call) {
	if c.at(1).exists(1).number >= 1 {
		c.returns(luaFalse)
		return
	}
	c.returns(c.setEx(1, c.arg(2), c.arg(1)))
}

// release deletes a key that holds ARGV[1]: the lock of whoever knows its value.
func release(c *call) {
	if !equal(c.at(1).get(1), c.arg(1)) {
		c.returns(num(0))
		return
	}
	c.returns(c.at(2).del(1))
}

// laravelRefresh sets or removes the expiry of a lock.
func laravelRefresh(c *call) {
	switch {
	case !equal(c.at(1).get(1), c.arg(1)):
		c.returns(num(0))
	case c.at(2).less(num(0), c.arg(2).toNumber()):
		c.returns(c.at(3).expire(1, c.arg(2)))
	default:
		c.at(6).persist(1)
		c.returns(num(1))
	}
}

// zeroLock takes a lock of go-zero, or extends it.
func zeroLock(c *call) {
	if equal(c.at(1).get(1), c.arg(1)) {
		c.at(2).set(1, c.arg(1), pxMillis, c.arg(2))
		c.returns(text([]byte("OK"))) // a text here, and a status of SET below
		return
	}
	c.returns(c.at(5).set(1, c.arg(1), pxMillisX, c.arg(2)))
}

// djangoIncr is incr of django-redis: INCRBY if the key exists.
func djangoIncr(c *call) {
	if c.at(2).exists(1).number != 1 {
		c.returns(luaFalse)
		return
	}
	c.returns(c.at(4).incrBy(1, c.arg(1)))
}

// djangoIncrAlways is incr of django-redis with ignore_key_check.
func djangoIncrAlways(c *call) { c.returns(c.at(2).incrBy(1, c.arg(1))) }

// throttledSwap is the compare-and-swap of throttled.
func throttledSwap(c *call) {
	v := c.at(2).get(1)
	switch {
	case v.kind == isFalse:
		c.returnsError("key does not exist")
	case !equal(v, c.arg(1)):
		c.returns(num(0))
	default:
		c.at(9).setEx(1, c.arg(3), c.arg(2))
		c.returns(num(1))
	}
}
