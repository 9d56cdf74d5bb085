package script

import "math"

// The scripts that keep a time or an amount of tokens in a float64. A product that is added to something is converted to float64
// first: so no processor fuses the two, which would round once instead of twice.

// rateVersion is what differs between the versions of redis_rate.
type rateVersion struct {
	rounds    bool // the remaining requests are rounded to the nearest
	onlyLater bool // nothing is set unless it expires later than now
	set       int  // the line of SET
}

// rate is what the scripts of redis_rate have computed when they decide.
type rate struct {
	interval, offset, cost value
	now, tat               float64
}

// rateBegin computes what the two scripts of redis_rate have in common. product is 1 for the script that computes the increment
// first, whose lines are one further down.
func (c *call) rateBegin(product int) (r rate, increment float64) {
	const jan2017 = 1483228800
	r.cost = c.arg(4).toNumber()
	interval := c.at(11).operand(c.arg(3), "local 'period'") / c.operand(c.arg(2), "local 'rate'")
	if product > 0 {
		increment = interval * c.at(12).operand(r.cost, "local 'cost'")
	}
	offset := interval * c.at(12+product).operand(c.arg(1), "local 'burst'")
	r.interval, r.offset = num(interval), num(offset)
	seconds, micros := c.at(22 + product).time()
	r.now = (seconds.toNumber().number - jan2017) + micros.toNumber().number/1000000
	r.tat = r.now
	if tat := c.at(25 + product).get(1); tat.truthy() {
		r.tat = tat.toNumber().number
	}
	r.tat = luaMax(r.tat, r.now)
	return r, increment
}

// allowN is AllowN of redis_rate: all of the cost, or nothing.
func allowN(v rateVersion) func(c *call) {
	return func(c *call) {
		r, increment := c.rateBegin(1)
		newTAT := r.tat + float64(increment)
		diff := r.now - (newTAT - r.offset.number)
		remaining := diff / r.interval.number
		if v.rounds {
			remaining = math.Floor(remaining + 0.5)
		}
		if remaining < 0 {
			c.returnsArray(num(0), num(0), c.tostring(diff*-1), c.tostring(r.tat-r.now))
			return
		}
		c.rateStore(v, newTAT, newTAT-r.now)
		c.returnsArray(r.cost, num(remaining), c.tostring(-1), c.tostring(newTAT-r.now))
	}
}

// allowAtMost is AllowAtMost of redis_rate: as much of the cost as there is.
func allowAtMost(v rateVersion) func(c *call) {
	return func(c *call) {
		r, _ := c.rateBegin(0)
		diff := r.now - (r.tat - r.offset.number)
		remaining := diff / r.interval.number
		none := remaining < 1
		if v.rounds {
			remaining = math.Floor(remaining + 0.5)
			none = remaining == 0
		}
		if none {
			c.returnsArray(num(0), num(0), c.tostring(r.interval.number-diff), c.tostring(r.tat-r.now))
			return
		}
		cost := r.cost
		if c.at(49).less(num(remaining), cost) {
			cost, remaining = num(remaining), 0
		} else {
			remaining -= cost.number
		}
		newTAT := r.tat + float64(r.interval.number*cost.number)
		c.rateStore(v, newTAT, newTAT-r.now)
		c.returnsArray(cost, num(remaining), c.tostring(-1), c.tostring(newTAT-r.now))
	}
}

// rateStore keeps the TAT until it has passed.
func (c *call) rateStore(v rateVersion, tat, reset float64) {
	if reset > 0 || !v.onlyLater {
		c.at(v.set).set(1, num(tat), exSeconds, num(math.Ceil(reset)))
	}
}

// zeroToken is the token limit of go-zero, whose client says what time it is: KEYS[1] holds tokens, KEYS[2] when they were counted.
// first is the line on which it divides.
func zeroToken(first int) func(c *call) {
	return func(c *call) {
		rate, capacity, now, requested := c.arg(1).toNumber(), c.arg(2).toNumber(), c.arg(3).toNumber(), c.arg(4).toNumber()
		fill := c.at(first).operand(capacity, "local 'capacity'") / c.operand(rate, "local 'rate'")
		ttl := num(math.Floor(fill * 2))
		tokens := capacity.number
		if v := c.at(first + 2).get(1).toNumber(); v.kind != isNil {
			tokens = v.number
		}
		counted := c.at(first + 7).get(2).toNumber().orZero().number
		passed := luaMax(0, c.at(first+12).operand(now, "local 'now'")-counted)
		filled := luaMin(capacity.number, tokens+float64(passed*rate.number))
		allowed := c.at(first+14).lessEqual(requested, num(filled))
		left := filled
		if allowed {
			left = filled - requested.number
		}
		c.at(first+20).setEx(1, ttl, num(left))
		c.at(first+21).setEx(2, ttl, now)
		if allowed {
			c.returns(luaTrue)
		} else {
			c.returns(luaFalse)
		}
	}
}
