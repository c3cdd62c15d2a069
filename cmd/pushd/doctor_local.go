package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/cmd/pushd/settings"
	"pushd/server/api"
)

// local checks what a server on this machine would stand on.
func (d *doctor) local(ctx context.Context, f *settingFlags) {
	set, err := f.load(d.shell)
	if err != nil {
		d.note(isWrong, "settings", "%v", err)
		return
	}
	d.note(isFine, "settings", "they make sense")
	d.port(ctx, set.Listen, serverOn(set))
	d.dataDir(set.DataDir)
	if place, ok := existing(set.DataDir); ok {
		d.room(place)
		d.syncRate(ctx, place)
	}
	d.files(set)
}

// port tells who has the address of the server; base is how it would be called.
func (d *doctor) port(ctx context.Context, address, base string) {
	l, err := listen(ctx, address)
	if err == nil {
		_ = l.Close() // it was only a question
		d.note(isFine, "port", "%s is free", address)
		return
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		d.note(isWrong, "port", "%v", err)
		if errors.Is(err, os.ErrPermission) {
			d.cure("ports below 1024 need a right: put a proxy in front, or AmbientCapabilities=CAP_NET_BIND_SERVICE into the unit")
		}
		return
	}
	bounded(ctx, 3*time.Second, func(ctx context.Context) {
		// Its certificate need not be for this name, and it is told nothing.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
		defer transport.CloseIdleConnections()
		asker := &api.Client{Base: base, HTTP: &http.Client{Transport: transport}}
		if err := asker.Ready(ctx); err == nil || api.IsStatus(err, 421, 503) {
			d.note(isFine, "port", "a pushd answers on %s", address)
			return
		}
		d.note(isWrong, "port", "another program listens on %s", address)
		d.cure("stop it, or name another address with --listen")
	})
}

// dataDir tells whether a server could work in its directory.
func (d *doctor) dataDir(dir string) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.note(isFine, "data_dir", "%s is not there yet; the first start makes it", dir)
		return
	case err != nil:
		d.note(isWrong, "data_dir", "%v", err)
		return
	case !info.IsDir():
		d.note(isWrong, "data_dir", "%s is no directory", dir)
		return
	}
	if open := info.Mode().Perm() & 0o077; open != 0 && permissionsMatter {
		d.note(isOdd, "data_dir", "%s may be read by others (mode %04o)", dir, info.Mode().Perm())
		d.cure("chmod 0700 " + dir)
	}
	err = boltstore.Probe(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.note(isFine, "data_dir", "%s has no store yet; the first start makes it", dir)
	case errors.Is(err, ackstore.ErrInUse):
		d.note(isFine, "data_dir", "%s is in use by a running server", dir)
	case errors.Is(err, ackstore.ErrNewer):
		d.note(isWrong, "data_dir", "%v", newerData(dir, err))
	case err != nil:
		d.note(isWrong, "data_dir", "%v", err)
		d.cure("restore a backup: docs/operating.md")
	default:
		d.note(isFine, "data_dir", "%s has a store, and nobody is on it", dir)
	}
}

// existing is the directory itself, or the nearest above it that is there.
func existing(dir string) (string, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		if info, err := os.Stat(dir); err == nil {
			return dir, info.IsDir()
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", false
		}
		dir = above
	}
}

// What is little room: a day of a busy server, and what a full disk is.
const (
	roomLittle = 1 << 30
	roomNone   = 64 << 20
)

func (d *doctor) room(dir string) {
	free, known := freeSpace(dir)
	level := isFine
	switch {
	case !known:
		d.note(isSkipped, "disk_space", "it cannot be asked here")
		return
	case free < roomNone:
		level = isWrong
	case free < roomLittle:
		level = isOdd
	}
	d.note(level, "disk_space", "%s free", sizeText(free))
	if level != isFine {
		d.cure("make room, shorten retention.*, or `pushctl compact` while the server is stopped")
	}
}

const (
	syncsMost  = 300
	syncTime   = time.Second
	syncsSlow  = 100    // a second
	syncsMagic = 50_000 // no disk does that: nothing was synced
)

// syncRate measures what every accepted push waits for.
func (d *doctor) syncRate(ctx context.Context, dir string) {
	f, err := os.CreateTemp(dir, ".pushd-doctor-*")
	if err != nil {
		d.note(isWrong, "sync_rate", "nothing can be written: %v", err)
		return
	}
	defer func() {
		_ = f.Close() // it is thrown away
		_ = os.Remove(f.Name())
	}()
	page := make([]byte, 4096)
	var took []time.Duration
	for begun := time.Now(); len(took) < syncsMost && time.Since(begun) < syncTime && ctx.Err() == nil; {
		page[0]++ // an unchanged page might be skipped
		one := time.Now()
		if _, err = f.WriteAt(page, 0); err == nil {
			err = f.Sync()
		}
		if err != nil {
			d.note(isWrong, "sync_rate", "%v", err)
			return
		}
		took = append(took, time.Since(one))
	}
	d.judgeSyncs(took)
}

func (d *doctor) judgeSyncs(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	var sum time.Duration
	for _, t := range took {
		sum += t
	}
	rate := float64(len(took)) / max(sum.Seconds(), 1e-9)
	// A commit syncs twice; a lone action takes two commits.
	text := "%.0f syncs a second (p50 %s, p99 %s): up to %.0f lone actions a second, many times that with many machines"
	values := []any{rate, micros(took[len(took)/2]), micros(took[len(took)*99/100]), rate / 4}
	switch {
	case rate < syncsSlow:
		d.note(isOdd, "sync_rate", text, values...)
		d.cure("put data_dir on a local SSD; network disks and spinning ones sync slowly")
	case rate > syncsMagic:
		d.note(isOdd, "sync_rate", text+"; too fast to be true", values...)
		d.cure("is this a disk in memory, or one whose cache lies? what is on it does not survive a power cut")
	default:
		d.note(isFine, "sync_rate", text, values...)
	}
}

func micros(t time.Duration) string { return t.Round(time.Microsecond).String() }

// files compares the limit of open files with what streams need.
func (d *doctor) files(set *settings.Loaded) {
	limit := fileLimit()
	need := set.Stream.MaxStreams + 100
	switch {
	case limit == 0:
		d.note(isSkipped, "open_files", "there is no limit to ask for here")
	case limit < 256:
		d.note(isWrong, "open_files", "%d: a stream costs one", limit)
		d.cure("LimitNOFILE=200000 in the unit, or ulimit -n")
	case limit < need:
		d.note(isOdd, "open_files", "%d: enough for about %d streams; stream.max_streams is %d", limit, limit-100, set.Stream.MaxStreams)
		d.cure("LimitNOFILE=200000 in the unit, or ulimit -n; or a lower stream.max_streams, which is refused politely")
	default:
		d.note(isFine, "open_files", "%d", limit)
	}
}

// permissionsMatter: elsewhere the mode of a file says nothing about who reads it.
var permissionsMatter = os.PathSeparator == '/'
