package resp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/golden"
	"cellserver/resp"
	"cellserver/resp/frame"
)

// TestCommandsPage makes docs/commands.md from the command table and testdata/examples.txt: the examples run on a server,
// and the page shows what it answers.
//
//	go test ./resp -run TestCommandsPage -update
func TestCommandsPage(t *testing.T) {
	examples := readExamples(t, "testdata/examples.txt")
	var index, pages strings.Builder
	group := ""
	for _, r := range resp.Rows() {
		if r.Container || strings.HasSuffix(r.Name, "|help") {
			continue
		}
		name := strings.ToUpper(strings.Join(r.Words, " "))
		if r.Group != group {
			group = r.Group
			title := strings.ToUpper(group[:1]) + group[1:]
			fmt.Fprintf(&index, "\n\n**%s**:", title)
			fmt.Fprintf(&pages, "\n## %s\n", title)
		} else {
			index.WriteString(",")
		}
		fmt.Fprintf(&index, "\n[%s](#%s)", name, anchor(name))
		lines, ok := examples[r.Name]
		if !assert.True(t, ok, "testdata/examples.txt has a section %s", r.Name) {
			continue
		}
		delete(examples, r.Name)
		fmt.Fprintf(&pages, "\n### %s\n\n%s\n\n```text\n%s\n```\n\nComplexity: %s  \nACL categories: %s\n\n%s", name, r.Summary,
			brokenSyntax(name, r.Syntax), r.Cost, strings.Join(categories(t, r.Name), ", "), playExample(t, r.Name, lines))
	}
	assert.Empty(t, examples, "sections of testdata/examples.txt without a row")
	golden.Section(t, "../docs/commands.md", "commands", strings.TrimPrefix(index.String(), "\n")+"\n"+pages.String()+"\n", *update)
}

// anchor returns the anchor of a heading on GitHub.
func anchor(heading string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(heading) {
		switch {
		case c == ' ':
			b.WriteByte('-')
		case c == '-' || c == '_' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			b.WriteRune(c)
		}
	}
	return b.String()
}

// brokenSyntax formats a syntax with one argument a line, and a long argument with one choice a line.
func brokenSyntax(name, syntax string) string {
	lines := []string{name}
	last := ""
	for _, part := range splitTop(strings.TrimSpace(strings.TrimPrefix(syntax, name)), ' ') {
		lines = append(lines, brokenArgument(part, last, "  ")...)
		last = part
	}
	return strings.Join(lines, "\n")
}

// brokenArgument returns the lines of an argument that follows the argument last.
func brokenArgument(part, last, indent string) (lines []string) {
	const long = 60
	switch {
	case len(part) <= long:
		return []string{indent + part}
	case part == "["+last+" ...]":
		return []string{indent + "[more of the same ...]"}
	case !strings.HasPrefix(part, "<"):
		return []string{indent + part}
	}
	for i, choice := range splitTop(part[1:len(part)-1], '|') {
		mark, last := "| ", ""
		if i == 0 {
			mark = "< "
		}
		if choice = strings.TrimSpace(choice); !strings.HasPrefix(choice, "<") {
			lines = append(lines, indent+mark+choice)
			continue
		}
		for j, sub := range splitTop(choice, ' ') { // a choice of several arguments
			broken := brokenArgument(sub, last, indent+"  ")
			if j == 0 {
				broken[0] = indent + mark + strings.TrimSpace(broken[0])
			}
			lines, last = append(lines, broken...), sub
		}
	}
	lines[len(lines)-1] += " >"
	return lines
}

// splitTop splits a syntax at the separators outside brackets.
func splitTop(syntax string, separator rune) (parts []string) {
	depth, from := 0, 0
	for i, c := range syntax {
		switch c {
		case '[', '<':
			depth++
		case ']', '>':
			depth--
		case separator:
			if depth == 0 {
				parts = append(parts, syntax[from:i])
				from = i + 1
			}
		}
	}
	if from < len(syntax) {
		parts = append(parts, syntax[from:])
	}
	return parts
}

// categories returns the ACL categories of a row, as the server reports them.
func categories(t *testing.T, row string) (names []string) {
	t.Helper()
	now := int64(0)
	c := resp.NewTestConn(newQuiet(1, &now), now)
	v, _, err := readValue(c.Feed(now, multibulk("COMMAND", "INFO", row)))
	require.NoError(t, err)
	for _, category := range v.items[0].items[6].items {
		names = append(names, content(category))
	}
	return names
}

// exampleLine is a line of testdata/examples.txt.
type exampleLine struct {
	after   time.Duration // time that passes before the line
	hidden  bool          // sent by the second connection
	text    string
	words   []string
	show    int      // number of lines of the reply on the page; 0 means all
	pattern []string // for a reply that varies: a pattern, and the reply to show
	sample  []string
}

func readExamples(t *testing.T, path string) map[string][]exampleLine {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	examples := make(map[string][]exampleLine)
	row, after := "", time.Duration(0)
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		mark, rest, _ := strings.Cut(line, " ")
		var last *exampleLine
		if n := len(examples[row]); n > 0 {
			last = &examples[row][n-1]
		}
		ok := true
		switch mark {
		case "=":
			ok = examples[rest] == nil
			row = rest
		case "@":
			after, err = time.ParseDuration(rest)
			ok = err == nil
		case ">", "c2>":
			next := exampleLine{after: after, hidden: mark == "c2>", text: rest}
			next.words, ok = frame.SplitArgs(rest)
			examples[row] = append(examples[row], next)
			after = 0
		case ".":
			last.show, err = strconv.Atoi(rest)
			ok = err == nil
		case "~":
			last.pattern = append(last.pattern, rest)
		case "|":
			last.sample = append(last.sample, rest)
		default:
			ok = false
		}
		require.True(t, ok, "%s:%d: %s", path, i+1, line)
	}
	return examples
}

// exampleStart is the time at the start of an example: noon on January 1, UTC.
var exampleStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()

// playExample runs an example on a new server and returns it in the form of the page.
func playExample(t *testing.T, row string, lines []exampleLine) string {
	t.Helper()
	now := exampleStart
	srv := newQuiet(8, &now)
	shown, hidden := resp.NewTestConn(srv, now), (*resp.TestConn)(nil)
	var b strings.Builder
	b.WriteString("```text\n")
	var prompt cliPrompt
	ran := false
	for _, line := range lines {
		now += int64(line.after)
		if line.hidden {
			if hidden == nil {
				hidden = resp.NewTestConn(srv, now)
			}
			hidden.Feed(now, multibulk(line.words...))
			continue
		}
		if line.after > 0 {
			fmt.Fprintf(&b, "```\n\n%v seconds later:\n\n```text\n", line.after.Seconds())
		}
		reply := shown.Feed(now, multibulk(line.words...))
		text, err := printed(line.words, reply)
		require.NoError(t, err, "%s: %s", row, line.text)
		fmt.Fprintf(&b, "%s%s\n%s", &prompt, line.text, line.shown(t, text))
		prompt.next(line.words, reply)
		ran = ran || strings.HasPrefix(row, strings.ToLower(line.words[0]))
	}
	assert.True(t, ran, "the example of %s calls it", row)
	b.WriteString("```\n")
	return b.String()
}

// cliPrompt is the prompt of redis-cli: it tells of the database and of MULTI.
type cliPrompt struct {
	database string
	multi    bool
}

func (p *cliPrompt) String() string {
	text := "127.0.0.1:6379"
	if p.database != "" && p.database != "0" {
		text += "[" + p.database + "]"
	}
	if p.multi {
		text += "(TX)"
	}
	return text + "> "
}

// next changes the prompt as the reply to a command does.
func (p *cliPrompt) next(words []string, reply []byte) {
	switch name := strings.ToLower(words[0]); {
	case name == "multi":
		p.multi = true
	case name == "exec" || name == "discard":
		p.multi = false
	case name == "select" && string(reply) == "+OK\r\n":
		p.database = words[1]
	case name == "reset":
		*p = cliPrompt{}
	}
}

// shown returns a reply in the form of the page.
func (l *exampleLine) shown(t *testing.T, text string) string {
	t.Helper()
	if l.pattern != nil {
		pattern := regexp.MustCompile(`\A` + strings.Join(l.pattern, "\n") + `\n\z`)
		sample := strings.Join(l.sample, "\n") + "\n"
		assert.Regexp(t, pattern, text, "%s: what the server answers", l.text)
		assert.Regexp(t, pattern, sample, "%s: what the page shows", l.text)
		text = sample
	}
	if all := strings.SplitAfter(text, "\n"); l.show > 0 && l.show < len(all) {
		text = strings.Join(all[:l.show], "") + "...\n"
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// prompted matches a command in a redis-cli session.
var prompted = regexp.MustCompile(`^ *127\.0\.0\.1:6379(?:\[\d+\])?(?:\(TX\))?> (.*)$`)

// session matches a redis-cli session in a document: a code block that begins with a prompt.
var session = regexp.MustCompile(`(?m)^( *)127\.0\.0\.1:6379> .*\n(?:[^\n\x60]+\n)*`)

// The server gives the replies in every redis-cli session of the documents. Generated pages have tests of their own.
func TestSessionsInDocumentsAreAnsweredAsShown(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	sessions := 0
	for _, page := range append(pages, "../README.md") {
		if strings.HasSuffix(page, "commands.md") {
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range session.FindAllStringSubmatch(string(text), -1) {
			sessions++
			indent := found[1]
			now := exampleStart
			c := resp.NewTestConn(newQuiet(8, &now), now)
			var got strings.Builder
			var prompt cliPrompt
			for _, line := range strings.Split(found[0], "\n") {
				command := prompted.FindStringSubmatch(line)
				if command == nil {
					continue
				}
				words, ok := frame.SplitArgs(command[1])
				require.True(t, ok, "%s: %s", page, line)
				bytes := c.Feed(now, multibulk(words...))
				reply, err := printed(words, bytes)
				require.NoError(t, err, "%s: %s", page, line)
				got.WriteString(indent + prompt.String() + command[1] + "\n")
				prompt.next(words, bytes)
				for _, l := range strings.SplitAfter(reply, "\n") {
					if l != "" {
						got.WriteString(indent + l)
					}
				}
			}
			assert.Equal(t, found[0], got.String(), "%s", page)
		}
	}
	assert.NotZero(t, sessions)
}
