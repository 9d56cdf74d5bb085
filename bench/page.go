package main

import (
	"fmt"
	"strings"
)

// page is a result in the form that is printed and saved.
type page struct {
	title    string
	command  string // the command line that produced it
	machine  []fact
	notes    []string // warnings for the reader
	chapters []chapter
}

// chapter is a part of a page. Only the Markdown shows about.
type chapter struct {
	title, about string
	table        table
}

// text returns the page for a terminal.
func (p page) text() string {
	w := new(strings.Builder)
	var machine table
	for _, f := range p.machine {
		machine.rows = append(machine.rows, []string{f.name, f.value})
	}
	fmt.Fprintf(w, "%s\n\n%s", strings.ToUpper(p.title), machine.text(false))
	for _, one := range p.chapters {
		fmt.Fprintf(w, "\n%s\n\n%s", strings.ToUpper(one.title), one.table.text(true))
	}
	for _, n := range p.notes {
		fmt.Fprintf(w, "\n* %s\n", n)
	}
	return w.String()
}

// markdown returns the page for a file. plots maps titles of chapters to names of files next to it.
func (p page) markdown(plots map[string]string) string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "# %s\n\nMade by `%s`, in the folder `bench`.\n\n| | |\n|---|---|\n", p.title, p.command)
	for _, f := range p.machine {
		fmt.Fprintf(w, "| %s | %s |\n", f.name, f.value)
	}
	for i, n := range p.notes {
		if i == 0 {
			w.WriteString("\n")
		}
		fmt.Fprintf(w, "- %s\n", n)
	}
	for _, one := range p.chapters {
		fmt.Fprintf(w, "\n## %s\n\n%s\n", one.title, strings.TrimSuffix(one.about, "\n"))
		if file := plots[one.title]; file != "" {
			fmt.Fprintf(w, "\n![%s](%s)\n", one.title, file)
		}
		fmt.Fprintf(w, "\n%s", one.table.markdown())
	}
	return w.String()
}
