package command

import "cellserver/resp/frame"

// hidden is shown in place of a secret.
var hidden = []byte("(redacted)")

// Redacted returns the words of a command as SLOWLOG and MONITOR may show them. A row hides rather too many words than too
// few: what a client meant as a secret may stand where none is expected.
func (c *Row) Redacted(words [][]byte) [][]byte {
	if c.Secrets == nil {
		return words
	}
	shown := append([][]byte(nil), words...)
	c.Secrets(words, func(i int) {
		if i < len(shown) {
			shown[i] = hidden
		}
	})
	return shown
}

// secretsFrom hides all words from the n-th on.
func secretsFrom(n int) func(words [][]byte, hide func(i int)) {
	return func(words [][]byte, hide func(i int)) {
		for i := n; i < len(words); i++ {
			hide(i)
		}
	}
}

// secretsOfHello hides what follows AUTH.
func secretsOfHello(words [][]byte, hide func(i int)) {
	for i, w := range words {
		if i > 0 && frame.Is(w, "AUTH") {
			secretsFrom(i+1)(words, hide)
			return
		}
	}
}

// secretsOfConfigSet hides what follows the name of a secret option, in whatever place. Where names and values do not
// pair, it hides all that cannot be told to be a name.
func secretsOfConfigSet(words [][]byte, hide func(i int)) {
	for i := 2; i < len(words); i++ {
		if isSecretOption(words[i]) {
			hide(i + 1)
		}
	}
	if len(words)%2 != 0 {
		secretsFrom(2)(words, hide)
	}
}

// isSecretOption reports whether an option may hold a secret.
func isSecretOption(name []byte) bool {
	for _, secret := range []string{"REQUIREPASS", "STORE", "STORE-PASSWORD", "STORE-SENTINEL-PASSWORD"} {
		if frame.Is(name, secret) {
			return true
		}
	}
	return false
}

// secretsOfNamed hides the secrets of a command that is named from the n-th word on: all that follows it, if it has any.
func secretsOfNamed(n int) func(words [][]byte, hide func(i int)) {
	return func(words [][]byte, hide func(i int)) {
		if len(words) <= n {
			return
		}
		for _, carrier := range []string{"AUTH", "HELLO", "ACL", "CONFIG"} {
			if frame.Is(words[n], carrier) {
				secretsFrom(n+1)(words, hide)
			}
		}
	}
}
