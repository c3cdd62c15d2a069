package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Levels of a finding.
const (
	isFine    = "ok"
	isSkipped = "skipped"
	isOdd     = "warning"
	isWrong   = "bad"
)

// finding is what one check found, and what cures it.
type finding struct {
	Check string   `json:"check"`
	Level string   `json:"level"`
	Says  string   `json:"says"`
	Cures []string `json:"cures,omitempty"`
}

// doctor collects findings.
type doctor struct {
	*shell
	findings []finding
}

func (d *doctor) note(level, check, format string, values ...any) {
	d.findings = append(d.findings, finding{Check: check, Level: level, Says: fmt.Sprintf(format, values...)})
}

// cure adds lines to the newest finding.
func (d *doctor) cure(lines ...string) {
	last := &d.findings[len(d.findings)-1]
	last.Cures = append(last.Cures, lines...)
}

func (d *doctor) count(level string) (n int) {
	for _, f := range d.findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

func doctorCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	var through string
	var hold time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what would keep a server, or the way to it, from working",
		Long: `Check this machine for a server: port, data directory, room and sync rate of its
disk, limit of open files. With --url (or --server, PUSHD_URL) check the way to a
running server instead, as its agents use it: a proxy in between that buffers,
compresses, cuts off what is silent or refuses large bodies, with the lines that
cure it; and the clocks. Give --data-dir or --config as well to check both.

Through a URL it subscribes as the machine doctor-HOST, pushes one action to it
and acks that. This takes a token of scope admin, or of push:doctor-*,
agent:doctor-* and read.

The exit status is 1 if anything is bad; warnings are not.`,
		Example: `  pushctl doctor
  pushctl doctor --data-dir /var/lib/pushd
  pushctl doctor --url https://push.example/pushd --hold 2m -o json`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{shell: sh}
			through = firstOf(through, sh.server, sh.getenv("PUSHD_URL"))
			if through == "" || f.given(sh) {
				d.local(cmd.Context(), f)
			}
			if through != "" {
				d.remote(cmd.Context(), through, hold)
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return d.report()
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&through, "url", "", "check the way to a running server at this address")
	cmd.Flags().DurationVar(&hold, "hold", 0, "how long to hold a stream open (default: a heartbeat and a bit)")
	return cmd
}

// given tells whether somebody speaks of a server on this machine.
func (f *settingFlags) given(sh *shell) bool {
	return f.file != "" || f.dataDir != "" || f.listen != "" || len(f.set) > 0 || sh.getenv("PUSHD_CONFIG") != "" || sh.getenv("PUSHD_DATA_DIR") != ""
}

// report prints the findings; what is bad is an error.
func (d *doctor) report() error {
	wrong := d.count(isWrong)
	answer := map[string]any{"items": d.findings, "bad": wrong, "warnings": d.count(isOdd)}
	if err := d.emit(answer, d.print); err != nil || wrong == 0 {
		return err
	}
	return &exitError{code: exitFailure, text: fmt.Sprintf("%s bad", plural(wrong, "thing is", "things are"))}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (d *doctor) print(w io.Writer) {
	paint := func(level string) string {
		text := fmt.Sprintf("%-8s", level)
		if !d.colour(w) {
			return text
		}
		return "\x1b[" + map[string]string{isFine: "32", isOdd: "33", isWrong: "31", isSkipped: "39"}[level] + "m" + text + "\x1b[0m"
	}
	for _, f := range d.findings {
		fmt.Fprintf(w, "%s %-12s %s\n", paint(f.Level), f.Check, printable(f.Says))
		for _, line := range f.Cures {
			fmt.Fprintf(w, "%s %s\n", strings.Repeat(" ", 21), line)
		}
	}
}

// bounded runs a check that must not hang.
func bounded(ctx context.Context, most time.Duration, f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	f(ctx)
}
