package resp

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/resp/command"
)

// Every callable row has a handler, and every handler has a row.
func TestHandlersAndRowsMatch(t *testing.T) {
	rows := make(map[string]bool)
	command.New().Each(func(c *command.Row) {
		rows[c.FullName()] = true
		_, bound := handlers[c.FullName()]
		assert.Equal(t, !c.Container(), bound, "%s: only what is no container has a handler", c.FullName())
	})
	for name, run := range handlers {
		assert.True(t, rows[name], "%s: a handler without a row", name)
		assert.NotNil(t, run, name)
	}
}
