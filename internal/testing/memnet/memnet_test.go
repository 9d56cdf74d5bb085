package memnet

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen()
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err == nil {
				_, err = io.Copy(c, c)
			}
			assert.NoError(t, err)
			c.Close()
		}()
		c, err := l.Dial()
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(b))
	})
}

func TestCloseEndsWhatWaits(t *testing.T) {
	for name, wait := range map[string]func(*Listener) (net.Conn, error){
		"Accept": (*Listener).Accept,
		"Dial":   (*Listener).Dial,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := Listen()
				done := make(chan error)
				go func() {
					_, err := wait(l)
					done <- err
				}()
				synctest.Wait()
				require.NoError(t, l.Close())
				assert.ErrorIs(t, <-done, net.ErrClosed)
				_, err := wait(l)
				assert.ErrorIs(t, err, net.ErrClosed, "and it stays closed")
				assert.NoError(t, l.Close(), "closing twice is fine")
			})
		})
	}
}
