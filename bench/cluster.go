package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func init() {
	subcommands = append(subcommands, subcommand{"cluster", "decisions whose keys are in a Valkey, beside that Valkey asked straight", runCluster})
}

// clusterPlan sets the sizes and durations of the subcommand cluster.
type clusterPlan struct {
	rounds   int
	only     []string      // names of clusterParts
	releases []string      // of Valkey
	folder   string        // with a folder for each release
	keys     int64         // that commands choose from
	hot      int64         // keys that are all exhausted
	conns    int           // of one server
	crowd    int           // connections that ask for one key together
	servers  int           // cellservers that share one key
	length   time.Duration // of one run
	exact    int64         // the limit of the key of which exactly so much must be admitted
	held     int64         // keys whose memory is measured
	logs     []int64       // records of a sliding log
	records  int64         // records of all logs of one length together, about
}

// fullClusterPlan returns the default plan; --quick makes it smaller.
func fullClusterPlan() clusterPlan {
	return clusterPlan{
		rounds: 5, releases: []string{"8.1", "9.1"}, keys: 100_000, hot: 100, conns: 50, crowd: 400, servers: 3, length: time.Second,
		exact: 20_000, held: 100_000, logs: []int64{10, 100, 1000, 10_000}, records: 20_000,
	}
}

// quick returns the plan for --quick. Flags that were given keep their values.
func (p clusterPlan) quick(keepRounds bool) clusterPlan {
	if !keepRounds {
		p.rounds = 2
	}
	p.length, p.exact, p.held, p.records = 200*time.Millisecond, 2000, 20_000, 2000
	p.logs = []int64{10, 100, 1000}
	return p
}

// clusterPart is a part of the subcommand cluster. It starts its own servers and adds its results.
type clusterPart struct {
	name    string
	measure func(context.Context, *clusterLab, engineProgram) error
}

var clusterParts = []clusterPart{
	{"straight", measureStraight},
	{"hot", measureHotKey},
	{"refused", measureRefused},
	{"crowd", measureCrowd},
	{"size", measureSizes},
	{"logs", measureSharedLogs},
}

func clusterPartNames() (names []string) {
	for _, p := range clusterParts {
		names = append(names, p.name)
	}
	return names
}

const aboutCluster = `cluster measures cellserver with its keys in a Valkey (--store) beside the same Valkey that is asked straight: the Valkey and
the cellservers share one core, the load has another one. It needs redis-benchmark, redis-server, and the releases of Valkey that
scripts/test-deps builds.`

// engineProgram is a release of the engine.
type engineProgram struct{ release, path string }

func (e engineProgram) name() string { return "Valkey " + e.release }

// clusterLab is a comparer whose servers share an engine, and the results so far.
type clusterLab struct {
	*comparer
	plan  clusterPlan
	grids []*grid
	goals []*goal
	alien series // in percent: what the servers' core did for somebody else in each run
}

// runCluster runs the subcommand.
func runCluster(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p, out, server, err := parseCluster(args, stdout)
	if err != nil {
		return err
	}
	programs, err := p.programs()
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	c, closeCluster, err := newClusterLab(l, p)
	if err != nil {
		return err
	}
	defer closeCluster()
	err = c.measure(ctx, programs)
	show.end()
	result := c.page(strings.Join(append([]string{"go run . cluster"}, args...), " "))
	if len(result.chapters) > 0 {
		_, wrote := io.WriteString(stdout, result.text()) // also what was measured before something failed
		err = errors.Join(err, wrote)
	}
	if err != nil || out == "" {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(out, []byte(result.markdown(nil)), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the same, with how it was measured, is in %s\n", out)
	return err
}

// parseCluster parses the command line of the subcommand.
func parseCluster(args []string, stdout io.Writer) (p clusterPlan, out, server string, err error) {
	p = fullClusterPlan()
	set := flag.NewFlagSet("cluster", flag.ContinueOnError)
	quick := set.Bool("quick", false, "measure for shorter, in 2 rounds, and less")
	only := set.String("only", "", "measure only these parts: some of "+strings.Join(clusterPartNames(), ", "))
	releases := set.String("releases", strings.Join(p.releases, ","), "the releases of Valkey")
	set.StringVar(&p.folder, "valkey", defaultValkey(), "a folder with a folder for each release, as scripts/test-deps makes it")
	set.IntVar(&p.rounds, "rounds", p.rounds, "measure everything but memory so often, one after the other, and show the medians")
	set.StringVar(&out, "out", "results/cluster.md", "file for the result, besides standard output; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutCluster, args, stdout); err != nil {
		return p, "", "", err
	}
	if *quick {
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		p = p.quick(given["rounds"])
	}
	p.releases = strings.Split(*releases, ",")
	for name := range strings.SplitSeq(*only, ",") {
		switch {
		case *only == "":
		case slices.Contains(clusterPartNames(), name):
			p.only = append(p.only, name)
		default:
			return p, "", "", usagef("--only: no part is called %q; there are %s", name, strings.Join(clusterPartNames(), ", "))
		}
	}
	if p.rounds < 1 {
		return p, "", "", usagef("--rounds begins at 1")
	}
	if server != "" {
		if _, err := os.Stat(server); err != nil {
			return p, "", "", usagef("--server: %w", err)
		}
	}
	return p, out, server, nil
}

// defaultValkey is where scripts/test-deps has the releases.
func defaultValkey() string {
	if folder := os.Getenv("CELLSERVER_TEST_VALKEY"); folder != "" {
		return folder
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "cellserver-test", "valkey")
}

// programs finds the releases of the plan.
func (p clusterPlan) programs() (all []engineProgram, err error) {
	for _, release := range p.releases {
		path, err := exec.LookPath(filepath.Join(p.folder, release, "valkey-server"))
		if err != nil {
			return nil, fmt.Errorf("there is no Valkey %s (scripts/test-deps builds it): %w", release, err)
		}
		all = append(all, engineProgram{release, path})
	}
	return all, nil
}

// newClusterLab finds the other programs and creates a directory. The function that it returns removes the directory.
func newClusterLab(l *lab, p clusterPlan) (c *clusterLab, remove func(), err error) {
	beside := fullComparePlan()
	beside.conns, beside.keys, beside.length, beside.rounds = p.conns, p.keys, p.length, p.rounds
	c = &clusterLab{plan: p}
	c.comparer, remove, err = newComparer(l, beside)
	return c, remove, err
}

// measure runs all parts that the plan names, for each release.
func (c *clusterLab) measure(ctx context.Context, programs []engineProgram) error {
	for _, part := range clusterParts {
		if len(c.plan.only) > 0 && !slices.Contains(c.plan.only, part.name) {
			continue
		}
		for _, program := range programs {
			c.progress.part = part.name + ", " + program.name()
			if err := part.measure(ctx, c, program); err != nil {
				return fmt.Errorf("%s, %s: %w", part.name, program.name(), err)
			}
		}
	}
	return nil
}

// page returns the result.
func (c *clusterLab) page(command string) page {
	machine := c.found.machine
	for _, release := range c.plan.releases {
		machine = append(machine, fact{"Valkey " + release, versionOf(filepath.Join(c.plan.folder, release, "valkey-server"))})
	}
	p := page{title: "Cluster store", command: command, machine: machine}
	if len(c.alien) > 0 {
		p.machine = append(p.machine, fact{"others on the servers' core", fmt.Sprintf("%s of the time of a run, %s in the worst run",
			percent(c.alien.median()), percent(slices.Max(c.alien)))})
	}
	if len(c.goals) > 0 {
		p.chapters = append(p.chapters, c.goalChapter())
	}
	for _, g := range c.grids {
		p.chapters = append(p.chapters, g.chapter())
	}
	return p
}

// goal is a figure that has one.
type goal struct {
	what    string
	value   series
	unit    func(float64) string
	limit   float64 // 0 for no goal, if it is not exactly that
	atMost  bool
	exactly bool
}

// addGoal adds the value of one round.
func (c *clusterLab) addGoal(g goal, value float64) {
	i := slices.IndexFunc(c.goals, func(other *goal) bool { return other.what == g.what })
	if i < 0 {
		i = len(c.goals)
		c.goals = append(c.goals, &g)
	}
	c.goals[i].value = append(c.goals[i].value, value)
}

// row returns the goal as a row of its table.
func (g *goal) row() []string {
	m := g.value.median()
	sign, met := "≥ ", m >= g.limit
	switch {
	case g.exactly:
		sign, met = "", slices.Min(g.value) == g.limit && slices.Max(g.value) == g.limit
	case g.atMost:
		sign, met = "≤ ", m <= g.limit
	}
	verdict, limit := "missed", sign+g.unit(g.limit)
	switch {
	case g.limit == 0 && !g.exactly:
		verdict, limit = "", ""
	case met:
		verdict = "met"
	}
	return []string{g.what, limit, g.unit(m), g.unit(slices.Min(g.value)), g.unit(slices.Max(g.value)), verdict}
}

func (c *clusterLab) goalChapter() chapter {
	t := table{head: []string{"figure", "goal", "median", "lowest", "highest", ""}}
	for _, g := range c.goals {
		t.rows = append(t.rows, g.row())
	}
	return chapter{"Goals", fmt.Sprintf(`Ratios are taken round by round; of %d rounds the median, the lowest and the highest are shown. The Valkey and all cellservers
share one core; the load has the other one. If something else works on the servers' core, ratios of throughputs flatter
cellserver, because it and its Valkey get two shares of the core and a Valkey alone gets one. Then look at the ratios of processor time:
that of the engine per request asked straight, over that of the engine and cellserver together per decision.`, c.plan.rounds), t}
}

// grid is a chapter whose columns are measured in every round.
type grid struct {
	title, about string
	head         []string
	units        []unit
	rows         []*gridRow
}

type gridRow struct {
	name  string
	cells []series
}

// gridOf returns the grid of a title, and creates it if it is missing.
func (c *clusterLab) gridOf(title, about string, head []string, units ...unit) *grid {
	i := slices.IndexFunc(c.grids, func(g *grid) bool { return g.title == title })
	if i < 0 {
		i = len(c.grids)
		c.grids = append(c.grids, &grid{title: title, about: about, head: head, units: units})
	}
	return c.grids[i]
}

// add adds one round of a row.
func (g *grid) add(name string, values ...float64) {
	i := slices.IndexFunc(g.rows, func(r *gridRow) bool { return r.name == name })
	if i < 0 {
		i = len(g.rows)
		g.rows = append(g.rows, &gridRow{name, make([]series, len(g.units))})
	}
	for j, v := range values {
		g.rows[i].cells[j] = append(g.rows[i].cells[j], v)
	}
}

// chapter returns the medians, and the spread of the first column.
func (g *grid) chapter() chapter {
	spread := slices.ContainsFunc(g.rows, func(r *gridRow) bool { return len(r.cells[0]) > 1 })
	t := table{head: slices.Clone(g.head)}
	if spread {
		t.head = append(t.head, "spread of "+g.head[1])
	}
	for _, r := range g.rows {
		cells := []string{r.name}
		for j, one := range r.cells {
			if len(one) == 0 {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, formatValue(one.median(), g.units[j]))
		}
		if spread {
			cells = append(cells, percent(r.cells[0].spread()))
		}
		t.rows = append(t.rows, cells)
	}
	return chapter{g.title, g.about, t}
}
