package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"pushd/cmd/pushd/settings"
	"pushd/server/api"
)

// emit prints v as JSON, or lets table print it for people.
func (sh *shell) emit(v any, table func(w io.Writer)) error {
	if sh.output != "json" {
		table(sh.out)
		return nil
	}
	raw, err := api.Marshal(v)
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return err
	}
	pretty.WriteByte('\n')
	_, err = pretty.WriteTo(sh.out)
	return err
}

// confirmDone tells that an act without data of its own was done: v for machines,
// a sentence for people.
func (sh *shell) confirmDone(v any, format string, values ...any) error {
	return sh.emit(v, func(io.Writer) { sh.say(format, values...) })
}

// line prints v as one line of JSON.
func (sh *shell) line(v any) error {
	raw, err := api.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "%s\n", raw)
	return err
}

// table lines up columns, plain enough to be cut by a script. State columns are
// coloured where w allows it; each cell gets codes of one length, so that the
// columns still line up.
type table struct {
	*tabwriter.Writer
	colour bool
}

func (sh *shell) table(w io.Writer, header ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), sh.colour(w)}
	cells := make([]any, len(header))
	for i, h := range header {
		cells[i] = h
		if h == "STATE" || h == "STATUS" {
			cells[i] = t.paint("39", h)
		}
	}
	t.row(cells...)
	return t
}

// row prints its cells; an absent one is a dash.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case state:
			texts[i] = t.paint(c.code(), string(c))
		case api.Time:
			texts[i] = stamp(c)
		default:
			texts[i] = fmt.Sprint(c)
		}
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t, strings.Join(texts, "\t"))
}

func (t *table) paint(code, text string) string {
	if !t.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// state is a state of an action, machine or label, for the colour of its cell.
type state string

func (s state) code() string {
	switch s {
	case "done", "online", "active":
		return "32"
	case "failed", "gave_up", "paused_need_help":
		return "31"
	case "in_doubt", "expired", "suspect", "grace", "paused":
		return "33"
	case "in_flight":
		return "36"
	}
	return "39"
}

func stamp(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.String()
}

// age tells how long ago t was, as people say it.
func age(now time.Time, t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(now.Sub(t.Time))
}

// span rounds a duration to what a person wants to know of it.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return settings.FormatDuration(d.Round(time.Second))
	case d < 48*time.Hour:
		return settings.FormatDuration(d.Round(time.Minute))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// printable keeps control characters of stored text away from a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
