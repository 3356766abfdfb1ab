package main

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

type line struct {
	name string
	y    []float64 // one for each x
}

// Colours that stay apart for the colour-blind, too.
var colours = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{204, 121, 167, 255},
}

// chart writes lines over xs, which stand at equal distances, to an SVG file. A logarithmic y axis shows what grows as it
// shows what collapses.
func chart(file, title, xLabel, yLabel string, xs []int, lines []line, logY bool) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, xLabel, yLabel
	p.Title.Padding = vg.Points(6)
	p.BackgroundColor = color.White
	p.Legend.Top = true
	p.Legend.Left = true
	p.Add(plotter.NewGrid())
	ticks := make([]plot.Tick, len(xs))
	for i, x := range xs {
		ticks[i] = plot.Tick{Value: float64(i), Label: strconv.Itoa(x)}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	top := 0.0
	for i, l := range lines {
		points := make(plotter.XYs, len(l.y))
		for k, y := range l.y {
			points[k] = plotter.XY{X: float64(k), Y: y}
			top = max(top, y)
		}
		curve, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		curve.Color, marks.Color = colours[i%len(colours)], colours[i%len(colours)]
		curve.Width, marks.Shape = vg.Points(2), draw.CircleGlyph{}
		p.Add(curve, marks)
		p.Legend.Add(l.name, curve, marks)
	}
	if logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Max = top * 4 // room for the legend
	} else {
		p.Y.Min, p.Y.Max = 0, top*1.3
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := p.Save(18*vg.Centimeter, 11*vg.Centimeter, file); err != nil {
		return err
	}
	say("plot: %s", file)
	return nil
}

// table prints a Markdown table to standard output and appends it to the file.
func table(file, title string, head []string, rows [][]string) error {
	text := fmt.Sprintf("\n### %s\n\n", title)
	for i, r := range append([][]string{head}, rows...) {
		for _, cell := range r {
			text += "| " + cell + " "
		}
		text += "|\n"
		if i == 0 {
			for range r {
				text += "|---"
			}
			text += "|\n"
		}
	}
	fmt.Print(text)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
