package model

import "math/big"

// number is an integer of arbitrary size. Times are in nanoseconds.
type number = *big.Int

func num(n int64) number            { return big.NewInt(n) }
func plus(a, b number) number       { return new(big.Int).Add(a, b) }
func minus(a, b number) number      { return new(big.Int).Sub(a, b) }
func times(a, b number) number      { return new(big.Int).Mul(a, b) }
func floorDiv(a, b number) number   { return new(big.Int).Div(a, b) } // requires that b > 0
func ceilDiv(a, b number) number    { return floorDiv(plus(a, minus(b, num(1))), b) }
func less(a, b number) bool         { return a.Cmp(b) < 0 }
func atMost(a, b number) bool       { return a.Cmp(b) <= 0 }
func same(a, b number) bool         { return a.Cmp(b) == 0 }
func positive(a number) bool        { return a.Sign() > 0 }
func clamp(a, lo, hi number) number { return lesser(greater(a, lo), hi) }

func lesser(a, b number) number {
	if less(b, a) {
		return b
	}
	return a
}

func greater(a, b number) number {
	if less(a, b) {
		return b
	}
	return a
}
