package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

func backupCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	unchecked := false
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store, of a running server or of a stopped one",
		Long: `Copy the store to FILE, which must not be there yet, and check the copy. With
--server or PUSHD_URL the server named there makes it, which takes a token of
scope admin; pushes and acks go on meanwhile. Otherwise the data directory of a
stopped server is copied; when one is running on it, that server is asked.

FILE is the pushd.db of a data directory: to restore it, put it there.`,
		Example: `  pushctl backup pushd-$(date +%F).db
  pushctl backup monday.db --data-dir /var/lib/pushd`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			b := &backing{shell: sh, file: given[0]}
			if _, err := os.Lstat(b.file); err == nil {
				return b.taken()
			}
			if err := b.make(cmd, f); err != nil {
				return err
			}
			return b.conclude(!unchecked)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&unchecked, "no-verify", false, "do not read the copy again to check it")
	return cmd
}

// backing is one backup on its way.
type backing struct {
	*shell
	file, from string
	bytes      int64
}

// taken refuses to write over what is there.
func (b *backing) taken() error {
	return &exitError{code: exitConflict, text: b.file + " is there already; nothing was written", next: "name another file"}
}

// make copies from the server that is named, or the directory, or the server on it.
func (b *backing) make(cmd *cobra.Command, flags *settingFlags) error {
	if b.server != "" || b.getenv("PUSHD_URL") != "" {
		return b.download(cmd.Context())
	}
	loaded, err := flags.load(b.shell)
	if err != nil {
		return err
	}
	bar := b.progress("copying")
	err = boltstore.Backup(cmd.Context(), loaded.DataDir, b.file, bar.at)
	bar.end()
	b.from = loaded.DataDir
	switch {
	case errors.Is(err, ackstore.ErrInUse):
		b.server = serverOn(loaded)
		b.say("%s is in use: asking the server at %s", loaded.DataDir, b.server)
		return b.download(cmd.Context())
	case errors.Is(err, os.ErrExist):
		return b.taken()
	case errors.Is(err, os.ErrNotExist):
		return noStore(loaded.DataDir)
	}
	return err
}

// noStore says that a directory has never been a server's.
func noStore(dir string) error {
	return &exitError{
		code: exitNotFound, text: fmt.Sprintf("there is no %s", boltstore.File(dir)),
		next: "name the data directory with --data-dir, or a running server with --server",
	}
}

// download takes a copy that a running server makes of itself. Making it may take
// long, and so may its way; what --timeout bounds is a silence.
func (b *backing) download(ctx context.Context) error {
	c, err := b.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, size, err := c.Backup(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	if size <= 0 {
		return fmt.Errorf("%s does not say how long the copy is; a proxy in between may have changed it", c.Base)
	}
	b.from = c.Base
	silence := time.AfterFunc(b.timeout, func() { cancel(errSilent) })
	defer silence.Stop()
	bar := b.progress("receiving")
	defer bar.end()
	err = boltstore.Receive(b.file, size, readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		silence.Reset(b.timeout)
		if err != nil && context.Cause(ctx) != nil {
			err = context.Cause(ctx)
		}
		return n, err
	}), bar.at)
	if errors.Is(err, os.ErrExist) {
		return b.taken()
	}
	return err
}

var errSilent = &exitError{code: exitTimedOut, text: "the server has gone silent within the copy; nothing was kept", next: "give it longer with --timeout"}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// conclude checks the copy and says what it is.
func (b *backing) conclude(check bool) error {
	info, err := os.Stat(b.file)
	if err != nil {
		return err
	}
	b.bytes = info.Size()
	if check {
		problems, err := boltstore.VerifyFile(b.file)
		if errors.Is(err, ackstore.ErrNewer) {
			return newerData(b.file+" is made and was not checked: it", err)
		}
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			return b.damaged(b.file, problems)
		}
	}
	made := map[string]any{"file": b.file, "bytes": b.bytes, "from": b.from, "verified": check}
	return b.emit(made, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s from %s%s\n", b.file, sizeText(b.bytes), b.from, map[bool]string{true: ", checked"}[check])
	})
}

// damaged prints one line per problem and fails.
func (sh *shell) damaged(path string, problems []string) error {
	if sh.output != "json" {
		for _, p := range problems {
			fmt.Fprintf(sh.out, "%s: %s\n", path, printable(p))
		}
	} else if err := sh.emit(map[string]any{"file": path, "whole": false, "problems": problems}, nil); err != nil {
		return err
	}
	return &exitError{code: exitFailure, text: path + ": " + plural(len(problems), "problem", "problems"), next: "restore a backup that is whole"}
}

func verifyStoreCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "verify DIR|FILE",
		Short: "Check a data directory or a backup, without writing to it",
		Long: `Read a data directory of a stopped server, or a backup, whole, and compare its
records with its indexes and counts. It writes nothing. Each problem is a line;
the exit status is 1 if there is any.`,
		Example: `  pushctl verify /var/lib/pushd
  pushctl verify monday.db`,
		Args: args(1, 1),
		RunE: func(_ *cobra.Command, given []string) error {
			path := given[0]
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				path = boltstore.File(path)
			}
			problems, err := boltstore.VerifyFile(path)
			switch {
			case errors.Is(err, os.ErrNotExist):
				return &exitError{code: exitNotFound, text: "there is no " + path}
			case errors.Is(err, ackstore.ErrInUse):
				return &exitError{code: exitConflict, text: path + " is in use by a running server", next: "make a backup with `pushctl backup FILE`, which is checked"}
			case errors.Is(err, ackstore.ErrNewer):
				return newerData(path, err)
			case err != nil:
				return err
			case len(problems) > 0:
				return sh.damaged(path, problems)
			}
			return sh.emit(map[string]any{"file": path, "whole": true, "problems": []string{}}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: whole\n", path)
			})
		},
	}
}

func compactCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Give back the space that a stopped server's store no longer needs",
		Long: `Rewrite the store of a stopped server without its free pages. A running server
uses them again by itself; this gives them back to the disk. The old file stands
until the new one is whole, so the disk must have room for both.`,
		Example: `  pushctl compact --data-dir /var/lib/pushd`,
		Args:    args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			loaded, err := f.load(sh)
			if err != nil {
				return err
			}
			bar := sh.progress("compacting")
			before, after, err := boltstore.Compact(loaded.DataDir, bar.at)
			bar.end()
			switch {
			case errors.Is(err, os.ErrNotExist):
				return noStore(loaded.DataDir)
			case errors.Is(err, ackstore.ErrInUse):
				return &exitError{code: exitConflict, text: loaded.DataDir + " is in use by a running server", next: "stop it first"}
			case errors.Is(err, ackstore.ErrNewer):
				return newerData(loaded.DataDir, err)
			case err != nil:
				return err
			}
			return sh.emit(map[string]any{"data_dir": loaded.DataDir, "bytes_before": before, "bytes_after": after}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s before, %s after\n", loaded.DataDir, sizeText(before), sizeText(after))
			})
		},
	}
	f.register(cmd)
	return cmd
}

// newerData says that this pushd is too old for what is there.
func newerData(path string, err error) error {
	return &exitError{
		code: exitFailure, text: fmt.Sprintf("%s was written by a newer pushd: %v", path, err),
		next: "run that version, or restore a backup that this one made",
	}
}
