package resp_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/resp"
)

// secret stands for every secret in the commands below.
const secret = "OpenSesame"

// secretLines are valid and invalid commands that contain the secret.
func secretLines() (lines []string) {
	digest := strings.Repeat("0", 64-len(secret)) // makes the secret look like a digest
	lines = []string{
		"AUTH SECRET", "AUTH default SECRET", "AUTH nobody SECRET", "AUTH default SECRET more", "AUTH default more SECRET",
		"HELLO 2 AUTH default SECRET", "HELLO 2 SETNAME me AUTH default SECRET", "HELLO 2 AUTH default SECRET SETNAME me",
		"HELLO 2 AUTH SECRET", "HELLO 2 AUTH default SECRET SECRET", "HELLO 9 AUTH default SECRET", "HELLO AUTH default SECRET",
		"HELLO 2 SETNAME AUTH default SECRET",
		"ACL SETUSER other >SECRET", "ACL SETUSER other <SECRET", "ACL SETUSER other on ~* >SECRET +@all", "ACL SETUSER other nosuchrule >SECRET",
		"ACL SETUSER other #" + digest + "SECRET", "ACL SETUSER other !" + digest + "SECRET", "ACL SETUSER other SECRET",
		"ACL DRYRUN default AUTH SECRET", "ACL DRYRUN default AUTH default SECRET", "ACL DRYRUN nosuch HELLO 2 AUTH default SECRET",
		"ACL DRYRUN default ACL SETUSER other >SECRET", "ACL DRYRUN default CONFIG SET requirepass SECRET",
		"COMMAND GETKEYS AUTH SECRET", "COMMAND GETKEYS ACL SETUSER other >SECRET", "COMMAND GETKEYS CONFIG SET requirepass SECRET",
		// Unknown commands, and commands with too few words.
		"AUHT SECRET", "AUTH", "ACL SETUSR other >SECRET", "CONFIG STE requirepass SECRET", "CONFIGSET requirepass SECRET", "HELO 2 AUTH default SECRET",
		"CONFIG SET requirepass", "ACL >SECRET", "CLIENT AUTH SECRET",
	}
	for _, o := range options.Table {
		if o.Hint() != "password" && o.Name != "store" {
			continue
		}
		for _, form := range []string{
			"CONFIG SET %s SECRET", "CONFIG SET maxclients 100 %s SECRET", "CONFIG SET %s SECRET maxclients 100 timeout 0",
			"CONFIG SET %[1]s SECRET %[1]s SECRET", "CONFIG SET nosuch 1 %s SECRET", "CONFIG SET %s SECRET maxclients x",
			"CONFIG SET %s SECRET more", "CONFIG SET more %s SECRET", "CONFIG SET %s " + strings.Repeat("SECRET", 100),
			"CONFIG SET maxclients SECRET %s",
		} {
			lines = append(lines, fmt.Sprintf(form, o.Name))
		}
	}
	return lines
}

// spellings returns a command in several cases of letters.
func spellings(line string) (all []string) {
	mixed := func(word string) string {
		b := []byte(strings.ToLower(word))
		for i := 0; i < len(b); i += 2 {
			b[i] = strings.ToUpper(string(b[i]))[0]
		}
		return string(b)
	}
	for _, spell := range []func(string) string{func(w string) string { return w }, strings.ToLower, strings.ToUpper, mixed} {
		words := strings.Fields(line)
		for i, w := range words {
			if !strings.Contains(w, "SECRET") && w != "default" && w != "other" {
				words[i] = spell(w)
			}
		}
		all = append(all, strings.ReplaceAll(strings.Join(words, " "), "SECRET", secret))
	}
	return all
}

// until sends lines and returns all replies, up to that of a final ECHO.
func (p *peer) until(lines string) string {
	p.t.Helper()
	p.send(lines + "\r\nECHO this-is-the-end\r\n")
	var b strings.Builder
	for !strings.HasSuffix(b.String(), "this-is-the-end\r\n") {
		line, err := p.r.ReadString('\n')
		require.NoError(p.t, err, b.String())
		b.WriteString(line)
	}
	return b.String()
}

// The server neither shows a secret to another client nor keeps it: not in valid commands, and not if it is in the wrong place,
// in any case of letters, in a queued or refused command, or in an unknown one.
func TestSecretsAreShownNowhere(t *testing.T) {
	log, store := new(logged), memory.NewStore(1)
	s := &subject{log: log, now: clock.New().Now}
	live := options.NewLive(options.Defaults(), func(next options.Settings) error {
		s.SetBounds(next.Wire)
		s.SetPassword(next.Password)
		return nil
	})
	s.Server = resp.NewServer(resp.Config{
		Store: store, Now: s.now, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Version: "test", Options: live, Bounds: live.Settings().Wire,
	})
	l := s.inMemory(t)
	operator, monitor, speaker, denied := connect(t, l.Dial), connect(t, l.Dial), connect(t, l.Dial), connect(t, l.Dial)
	for _, c := range []*peer{operator, monitor, speaker, denied} {
		require.NoError(t, c.SetDeadline(time.Now().Add(2*patience)))
	}
	monitor.r = bufio.NewReaderSize(monitor, 1<<20)
	operator.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000 latency-monitor-threshold 1", "+OK\r\n")
	operator.ask("ACL SETUSER nobody on nopass -@all +echo +multi +exec +discard", "+OK\r\n")
	denied.ask("AUTH nobody x", "+OK\r\n")
	monitor.ask("MONITOR", "+OK\r\n")
	hidden := 0
	for _, line := range secretLines() {
		for _, spelt := range spellings(line) {
			operator.until("ACL LOG RESET\r\nSLOWLOG RESET\r\nCONFIG SET requirepass \"\"")
			speaker.until(spelt + "\r\nMULTI\r\n" + spelt + "\r\nEXEC\r\nMULTI\r\n" + spelt + "\r\nDISCARD")
			denied.until(spelt + "\r\nMULTI\r\n" + spelt + "\r\nEXEC")
			if strings.HasPrefix(strings.ToUpper(spelt), "AUTH") || strings.HasPrefix(strings.ToUpper(spelt), "HELLO") {
				denied.until("AUTH nobody x") // still as the user before
			}
			seen := operator.until("SLOWLOG GET -1\r\nACL LOG 1000\r\nLATENCY LATEST\r\nLATENCY DOCTOR\r\nCLIENT LIST\r\nINFO everything")
			assert.NotContains(t, seen, secret, "SLOWLOG, ACL LOG, LATENCY, CLIENT LIST and INFO after %q", spelt)
			hidden += strings.Count(seen, "(redacted)")
		}
	}
	shown := monitor.until("")
	assert.NotContains(t, shown, secret, "MONITOR")
	assert.NotContains(t, log.String(), secret, "the log")
	assert.Greater(t, hidden, 100, "the slowlog shows what it hides")
	assert.Greater(t, strings.Count(shown, "(redacted)"), 100, "so does MONITOR")
}
