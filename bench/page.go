package main

import (
	"fmt"
	"strings"
)

// page is a result as it is printed and kept.
type page struct {
	title    string
	command  string // what made it
	machine  []fact
	notes    []string // what a reader must know
	chapters []chapter
}

// chapter is a part of a page. The about is for the Markdown only.
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

// markdown returns the page to keep. plots are names of files beside it, by the title of a chapter.
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
