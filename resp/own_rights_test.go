package resp_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A user that changes its own rights has the new ones from the next command on, even in the same batch, and a user that deletes
// itself has none.
func TestOwnRightsChangeAtOnce(t *testing.T) {
	denied := "-NOPERM User u has no permissions to run the 'ping' command\r\n"
	for _, row := range []struct{ change, want string }{
		{"ACL SETUSER u -ping", "+OK\r\n" + denied},
		{"ACL SETUSER u off", "+OK\r\n"},
		{"ACL DELUSER u", ":1\r\n"},
		{"ACL DELUSER v", ":0\r\n+PONG\r\n"},
	} {
		got := askOurs(words(t, "ACL SETUSER u on nopass ~* +@all", "AUTH u x", row.change, "PING"))
		assert.Equal(t, "+OK\r\n+OK\r\n"+row.want, got, row.change)
	}
}
