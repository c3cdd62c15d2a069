package main_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore/boltstore"
	"pushd/server/api"
)

// writeFixture is for a release: go test ./cmd/pushd -run Fixture -write-fixture v1.2.3
var writeFixture = flag.String("write-fixture", "", "write testdata/upgrade/NAME.db.gz, a store as this version keeps it")

// forever keeps what is settled, however old a fixture gets.
var forever = []string{"retention.settled=876000h", "retention.dead=876000h", "retention.tombstones=876000h"}

// Each action of a fixture is named after the state that it is in.
var fixtureStates = []string{"done", "failed", "cancelled", "in_doubt", "in_flight", "scheduled", "queued"}

func TestFixtureOfThisVersion(t *testing.T) {
	if *writeFixture == "" {
		t.Skip("only for a release: -write-fixture NAME")
	}
	dir := t.TempDir()
	d := serve(t, dir, forever...)
	writeStory(t, d)
	code, err := d.end(os.Interrupt)
	require.NoError(t, err)
	require.Equal(t, 0, code)
	_, talk, code := run(t, "pushctl", "compact", "--data-dir", dir)
	require.Equal(t, 0, code, talk)
	raw, err := os.ReadFile(boltstore.File(dir))
	require.NoError(t, err)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(filepath.Join("testdata", "upgrade", *writeFixture+".db.gz"), packed.Bytes(), 0o644))
}

// writeStory leaves an action in each state, and one of everything else.
func writeStory(t *testing.T, d *daemon) {
	t.Helper()
	c, ctx := d.client(), t.Context()
	push := func(id, machine, guarantee string) {
		_, err := c.Push(ctx, api.Push{
			ActionID: id, MachineID: machine, SessionID: "s-" + id, ReplayID: "r1", Type: "job", Guarantee: guarantee,
			Payload: json.RawMessage(`{"text":"é\n","n":1.0}`), Labels: map[string]string{"team": "a"}, Target: "claude/" + machine,
		})
		require.NoError(t, err)
	}
	take := func(machine, instance string) {
		resp, err := c.Next(ctx, api.Subscription{MachineID: machine, InstanceID: instance, MaxInFlight: new(10)}, 0)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	ack := func(a api.Ack) {
		_, err := c.Ack(ctx, a)
		require.NoError(t, err)
	}
	push("done-1", "m1", "")
	take("m1", "i1")
	ack(api.Ack{ActionID: "done-1", Status: "done", Result: json.RawMessage(`{"ok":true}`)})
	push("failed-1", "m1", "")
	take("m1", "i1")
	ack(api.Ack{ActionID: "failed-1", Status: "failed", Error: &api.Failure{Kind: "permanent", Message: "no"}})
	push("in_doubt-1", "m2", "at_most_once")
	take("m2", "i1")
	ack(api.Ack{ActionID: "in_doubt-1", Status: "received"})
	resp, err := c.Next(ctx, api.Subscription{MachineID: "m2", InstanceID: "i2"}, 0) // who comes back knows nothing of it
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	push("in_flight-1", "m1", "")
	take("m1", "i1")
	ack(api.Ack{ActionID: "in_flight-1", Status: "received"})
	push("cancelled-1", "m3", "")
	_, err = c.Cancel(ctx, "cancelled-1")
	require.NoError(t, err)
	push("queued-1", "m3", "")
	_, err = c.Push(ctx, api.Push{ActionID: "scheduled-1", MachineID: "m3", Type: "job", AvailableAt: api.At(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))})
	require.NoError(t, err)
	require.NoError(t, c.Pause(ctx, api.Machines, "m3", api.PauseRequest{Note: "kept"}))
	for _, state := range fixtureStates {
		r, err := c.Action(ctx, state+"-1", 0)
		require.NoError(t, err)
		require.Equal(t, state, r.State)
	}
}

// fixtures are the stores that versions before this one, and this one, have left.
func fixtures(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", "upgrade", "*.db.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func unpack(t *testing.T, fixture string) (dir string) {
	t.Helper()
	f, err := os.Open(fixture)
	require.NoError(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	require.NoError(t, err)
	raw, err := io.ReadAll(r)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(boltstore.File(dir), raw, 0o600))
	return dir
}

func TestADirectoryOfEachVersionOpens(t *testing.T) {
	t.Parallel()
	for _, fixture := range fixtures(t) {
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, fixture)
			whole := func() {
				out, talk, code := run(t, "pushctl", "verify", dir)
				require.Equal(t, 0, code, out+talk)
			}
			whole()
			d := serve(t, dir, forever...)
			for _, state := range fixtureStates {
				r, err := d.client().Action(t.Context(), state+"-1", 0)
				require.NoError(t, err)
				require.Equal(t, state, r.State)
				require.NotEmpty(t, r.Timeline)
			}
			r, err := d.client().Action(t.Context(), "done-1", 0)
			require.NoError(t, err)
			require.Equal(t, `{"text":"é\n","n":1.0}`, string(r.Payload))
			require.JSONEq(t, `{"ok":true}`, string(r.Result))
			m, err := d.client().Machine(t.Context(), "m3")
			require.NoError(t, err)
			require.Equal(t, "kept", m.Paused[0].Note)
			// It goes on where it stood.
			acked, err := d.client().Ack(t.Context(), api.Ack{ActionID: "in_flight-1", Status: "done"})
			require.NoError(t, err)
			require.Equal(t, "settled", acked.Outcome)
			require.NoError(t, d.client().Resume(t.Context(), api.Machines, "m3"))
			code, err := d.end(os.Interrupt)
			require.NoError(t, err)
			require.Equal(t, 0, code)
			whole()
		})
	}
}

// What a newer version has written is left alone, and said in one line.
func TestADirectoryOfANewerVersionIsRefusedInOneLine(t *testing.T) {
	t.Parallel()
	dir := unpack(t, fixtures(t)[0])
	db, err := bolt.Open(boltstore.File(dir), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte{0, 0, 0, 0, 0, 0, 1, 0})
	}))
	require.NoError(t, db.Close())
	before, err := os.ReadFile(boltstore.File(dir))
	require.NoError(t, err)
	for _, line := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir},
		{"compact", "--data-dir", dir},
		{"verify", dir},
		{"token", "ls", "--data-dir", dir},
		{"doctor", "--listen", "127.0.0.1:0", "--data-dir", dir},
	} {
		out, talk, code := run(t, "pushd", line...)
		require.Equal(t, 1, code, "%v: %s%s", line, out, talk)
		require.Contains(t, out+talk, "newer", line)
		require.Contains(t, out+talk, "schema 256", line)
		require.Equal(t, 1, strings.Count(talk, "\n"), "%v: %s", line, talk)
	}
	after, err := os.ReadFile(boltstore.File(dir))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
