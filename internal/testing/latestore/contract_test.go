package latestore_test

import (
	"testing"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/latestore"
	"cellserver/internal/testing/storetest"
)

// A store that carries out the operations of a batch in any order that the contract allows keeps the contract.
func TestContract(t *testing.T) {
	storetest.Test(t, func(testing.TB) buckets.Store {
		inner := memory.NewStore(8)
		inner.SetMaxLog(storetest.MaxLog)
		return latestore.New(inner)
	})
}
