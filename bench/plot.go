package main

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// graphic is one or more plots side by side, with a legend to their right.
type graphic struct {
	title, y      string // y is what all vertical axes show
	width, height vg.Length
	panels        []*plot.Plot
	legend        plot.Legend
}

// legendWidth is the width of the legend.
const legendWidth = 6 * vg.Centimeter

// Colors of asks, by id, and of peers, in turn. The colors of cellserver are cold, those of Redis warm or grey.
var (
	inks = map[string]color.RGBA{
		askThrottle.id():  rgb(0x1f5fbf),
		askWindow.id():    rgb(0x1b998b),
		askSlide.id():     rgb(0x7048b6),
		askAll.id():       rgb(0x29a8dc),
		askPing.id():      rgb(0x8aa4c0),
		askNoise.id():     rgb(0x9db8e0),
		askGCRA.id():      rgb(0xd1382c),
		askLuaWindow.id(): rgb(0xf08c2e),
		askLuaList.id():   rgb(0x96592b),
		askLuaSet.id():    rgb(0xc9307d),
		askSet.id():       rgb(0x222222),
		askIncr.id():      rgb(0x707070),
		askRedisPing.id(): rgb(0xb0b0b0),
	}
	peerInks = []color.RGBA{rgb(0x5a8f29), rgb(0xb59f00), rgb(0x3d6b52), rgb(0x9acd32)}
)

func rgb(v uint32) color.RGBA {
	return color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}

// sans returns the font of the plots in a size.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func newGraphic(title, y string, width, height vg.Length) *graphic {
	g := &graphic{title: title, y: y, width: width, height: height, legend: plot.NewLegend()}
	g.legend.Top, g.legend.Left = true, true
	g.legend.TextStyle.Font = sans(10)
	g.legend.Padding = vg.Points(3)
	g.legend.ThumbnailWidth = 1.1 * vg.Centimeter
	return g
}

// panel adds a plot with a grid in the background.
func (g *graphic) panel(title, x string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.Title.TextStyle.Font = title, sans(12)
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text, p.X.Label.TextStyle.Font = x, sans(11)
	p.X.Label.Padding = vg.Points(4)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = sans(10), sans(10)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = rgb(0xdadada), rgb(0xdadada)
	p.Add(grid)
	g.panels = append(g.panels, p)
	return p
}

// draw draws the panels and the legend.
func (g *graphic) draw(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Path())
	margin := vg.Points(8)
	c = draw.Crop(c, margin, -margin, margin, -margin)
	style := text.Style{Color: color.Black, Font: sans(14), XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Max.Y}, g.title)
	c = draw.Crop(c, 0, 0, 0, -vg.Points(26))
	// The label that gonum draws for an axis takes space above a logarithmic axis, so draw one here.
	style.Font, style.Rotation, style.XAlign = sans(11), math.Pi/2, text.XCenter
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Center().Y}, g.y)
	panels, gap := draw.Crop(c, vg.Points(20), -legendWidth, 0, 0), vg.Points(14)
	width := (panels.Size().X + gap) / vg.Length(len(g.panels))
	for i, p := range g.panels {
		left := width * vg.Length(i)
		p.Draw(draw.Crop(panels, left, left+width-gap-panels.Size().X, 0, 0))
	}
	g.legend.Draw(draw.Crop(c, c.Size().X-legendWidth+vg.Points(8), 0, 0, -vg.Points(20)))
}

// save writes the graphic to an SVG file.
func (g *graphic) save(path string) (err error) {
	canvas := vgsvg.New(g.width, g.height)
	g.draw(draw.New(canvas))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = canvas.WriteTo(f)
	return err
}

// namedPlot is a plot that belongs to a chapter of the report.
type namedPlot struct {
	file, chapter string
	figure        *graphic
}

// plots returns the plots of the parts that have been measured.
func (c *comparison) plots() (all []namedPlot) {
	for _, one := range []namedPlot{
		{"throughput", "Throughput", c.plotThroughput()},
		{"latency", "Latency at fixed rates", c.plotLatency()},
		{"memory", "Memory", c.plotMemory()},
	} {
		if one.figure != nil {
			all = append(all, one)
		}
	}
	return all
}

// logTicks returns the ticks of a logarithmic axis for the values: 1, 2 and 5 times every power of ten. If they are few, all
// have labels.
func logTicks(low, high float64, label func(float64) string) (ticks plot.ConstantTicks, from, to float64) {
	from, to = math.Inf(1), 0
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, step := range []float64{1, 2, 5} {
			v := step * math.Pow(10, power)
			if v <= low {
				from = v
			}
			if v >= high && to == 0 {
				to = v
			}
		}
	}
	many := to/from > 2000
	for power := math.Floor(math.Log10(from)); power <= math.Ceil(math.Log10(to)); power++ {
		for _, step := range []float64{1, 2, 5} {
			v := step * math.Pow(10, power)
			if v < from*0.999 || v > to*1.001 {
				continue
			}
			t := plot.Tick{Value: v, Label: label(v)}
			if many && step != 1 {
				t.Label = ""
			}
			ticks = append(ticks, t)
		}
	}
	return ticks, from, to
}

// logAxis makes an axis logarithmic and fits it to the values.
func logAxis(axis *plot.Axis, values []float64, label func(float64) string) {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	ticks, from, to := logTicks(low, high, label)
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, ticks
	axis.Min, axis.Max = from, to
}

// curve adds a line with points to a panel, and returns its entry for the legend.
func curve(p *plot.Plot, points plotter.XYs, ink color.Color, server string) ([]plot.Thumbnailer, error) {
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = ink, vg.Points(1.6)
	dots.Color, dots.Radius = ink, vg.Points(2.8)
	switch server {
	case nameCellserver:
		dots.Shape = draw.CircleGlyph{}
	case nameNoise:
		dots.Shape = draw.RingGlyph{}
	case nameRedis:
		dots.Shape, line.Dashes = draw.BoxGlyph{}, []vg.Length{vg.Points(5), vg.Points(2.5)}
	default:
		dots.Shape, line.Dashes = draw.PyramidGlyph{}, []vg.Length{vg.Points(1.5), vg.Points(2)}
	}
	p.Add(line, dots)
	return []plot.Thumbnailer{line, dots}, nil
}

// inkOf returns the color of an ask. peers counts the asks without a color of their own.
func inkOf(a *ask, peers *int) color.Color {
	if ink, ok := inks[a.id()]; ok {
		return ink
	}
	*peers++
	return peerInks[(*peers-1)%len(peerInks)]
}

func (c *comparison) plotThroughput() *graphic {
	g := newGraphic("Throughput by depth of the pipeline", "thousand requests per second", 26*vg.Centimeter, 15*vg.Centimeter)
	p := g.panel("", fmt.Sprintf("commands in one pipeline, on each of %d connections", c.plan.conns))
	var values []float64
	peers := 0
	for _, a := range c.asks {
		var points plotter.XYs
		for _, depth := range c.plan.depths {
			if s := c.speeds[speedKey{a.id(), depth}]; s != nil {
				points = append(points, plotter.XY{X: float64(depth), Y: s.rate.median() / 1e3})
				values = append(values, s.rate.median()/1e3)
			}
		}
		if len(points) == 0 || a == askNoise {
			continue
		}
		thumbs, err := curve(p, points, inkOf(a, &peers), a.server)
		if err != nil {
			continue // all of its points are NaN
		}
		g.legend.Add(shortened(a.id()), thumbs...)
	}
	if len(values) == 0 {
		return nil
	}
	logAxis(&p.Y, values, func(v float64) string { return fmt.Sprint(v) })
	ticks := plot.ConstantTicks{}
	for _, depth := range c.plan.depths {
		ticks = append(ticks, plot.Tick{Value: float64(depth), Label: fmt.Sprint(depth)})
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks
	return g
}

// shortened shortens a name so that it fits into the legend.
func shortened(name string) string {
	const most = 26
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

func (c *comparison) plotLatency() *graphic {
	g := newGraphic("Latency by offered load, at a fixed rate", "latency from when a command was due", 30*vg.Centimeter, 12*vg.Centimeter)
	var values []float64
	for i, q := range []struct {
		title string
		of    func(*latencySeries) series
	}{
		{"p50", func(s *latencySeries) series { return s.p50 }},
		{"p99", func(s *latencySeries) series { return s.p99 }},
		{"p99.9", func(s *latencySeries) series { return s.p999 }},
	} {
		p := g.panel(q.title, "thousand requests per second")
		peers := 0
		for _, a := range latencyAsked {
			var points plotter.XYs
			for _, load := range c.plan.loads {
				if s := c.paced[pacedKey{a.id(), load}]; s != nil {
					v := math.Max(q.of(s).median(), 1000)
					points = append(points, plotter.XY{X: c.saturation * float64(load) / 100 / 1e3, Y: v})
					values = append(values, v)
				}
			}
			if len(points) == 0 {
				continue
			}
			thumbs, err := curve(p, points, inkOf(a, &peers), a.server)
			if err == nil && i == 0 {
				g.legend.Add(shortened(a.id()), thumbs...)
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	for _, p := range g.panels { // one scale, so that the panels can be compared
		logAxis(&p.Y, values, latencyLabel)
		p.X.Tick.Marker = plot.TickerFunc(plainTicks)
		p.X.Min, p.X.Max = 0, c.saturation/1e3
	}
	return g
}

// plainTicks are the default ticks, with labels without trailing zeros.
func plainTicks(low, high float64) (ticks []plot.Tick) {
	for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
		if !t.IsMinor() {
			t.Label = strconv.FormatFloat(t.Value, 'g', 4, 64)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// latencyLabel formats nanoseconds as the label of a tick.
func latencyLabel(v float64) string {
	switch {
	case v < 999e3:
		return fmt.Sprintf("%.0f µs", v/1e3)
	case v < 999e6:
		return fmt.Sprintf("%.0f ms", v/1e6)
	}
	return fmt.Sprintf("%.0f s", v/1e9)
}

func (c *comparison) plotMemory() *graphic {
	g := newGraphic("Memory by number of keys", "bytes per key: RSS above the empty server", 22*vg.Centimeter, 12*vg.Centimeter)
	p := g.panel("", "keys")
	width := vg.Points(46)
	highest := 0.0
	for i, one := range savers {
		var heights plotter.Values
		labels := plotter.XYLabels{}
		for n, keys := range c.plan.sizes {
			m, ok := c.memory[memoryKey{one.server, keys}]
			if !ok {
				return nil
			}
			each := math.Max(m.above/float64(keys), 0)
			highest = math.Max(highest, each)
			heights = append(heights, each)
			labels.XYs = append(labels.XYs, plotter.XY{X: float64(n), Y: each})
			labels.Labels = append(labels.Labels, fmt.Sprintf("%.0f B", each))
		}
		bars, err := plotter.NewBarChart(heights, width)
		if err != nil {
			return nil
		}
		bars.Offset = width * vg.Length(2*i-1) / 2
		bars.LineStyle.Width = 0
		bars.Color = inks[askThrottle.id()]
		name := "cellserver, CL.THROTTLE"
		if one.server == nameRedis {
			bars.Color, name = inks[askGCRA.id()], "Redis, string with expiry"
		}
		values, err := plotter.NewLabels(labels)
		if err != nil {
			return nil
		}
		for n := range values.TextStyle {
			values.TextStyle[n].Font, values.TextStyle[n].XAlign = sans(10), text.XCenter
		}
		values.Offset = vg.Point{X: bars.Offset, Y: vg.Points(3)}
		p.Add(bars, values)
		g.legend.Add(name, bars)
	}
	var names []string
	for _, keys := range c.plan.sizes {
		names = append(names, grouped(float64(keys)))
	}
	p.NominalX(names...)
	p.X.Tick.Label.Font = sans(10)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Min, p.Y.Max = 0, highest*1.12+1
	return g
}
