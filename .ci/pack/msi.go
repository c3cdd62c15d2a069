package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var numbers = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)`)

// msi has wixl build an installer from stage, and then takes out of it what wixl
// draws or reads from the clock: the package's code, which is made of its content
// instead, and two times.
func msi(source, stage, version, out string, at time.Time) error {
	number := "0.0.0"
	if m := numbers.FindStringSubmatch(version); m != nil {
		number = m[1]
	}
	program, err := os.ReadFile(filepath.Join(stage, "pushd.exe"))
	if err != nil {
		return err
	}
	for _, name := range []string{"pushd.exe", "pushctl.cmd"} {
		if err := os.Chtimes(filepath.Join(stage, name), at, at); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(program)
	if source, err = filepath.Abs(source); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	cmd := exec.Command("wixl", "-a", "x64", "-D", "VERSION="+number, "-D", "PRODUCT="+idOf("product", version, sum[:]), "-o", out, source)
	cmd.Dir = stage // wixl finds files from where it stands
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "TZ=UTC")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("wixl: %w", err)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if err := settle(raw, idOf("package", version, sum[:]), at); err != nil {
		return err
	}
	return os.WriteFile(out, raw, 0o644)
}

// idOf is a UUID that the same input gives again.
func idOf(what, version string, content []byte) string {
	h := sha256.Sum256(append([]byte("pushd "+what+" "+version+" "), content...))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8: made by a rule of one's own
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

// In the summary a string is its kind, its length and its bytes; a time is its
// kind and 100 ns since 1601.
var (
	revision = regexp.MustCompile(`\x1e\x00\x00\x00\x27\x00\x00\x00\{[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}\}\x00`)
	moment   = []byte{0x40, 0, 0, 0}
)

// settle writes id and at into the summary of an installer.
func settle(raw []byte, id string, at time.Time) error {
	places := revision.FindAllIndex(raw, -1)
	if len(places) != 1 {
		return fmt.Errorf("the installer's summary was found %d times", len(places))
	}
	from := places[0][0]
	copy(raw[from+9:], id)
	const since1601 = 11_644_473_600
	ticks := uint64(at.Unix()+since1601) * 10_000_000
	written := 0
	for i := max(0, from-1024); i < min(len(raw)-12, from+1024); i++ {
		if !bytes.Equal(raw[i:i+4], moment) {
			continue
		}
		old := time.Unix(int64(binary.LittleEndian.Uint64(raw[i+4:])/10_000_000)-since1601, 0)
		if time.Since(old).Abs() < 24*time.Hour { // it was built just now
			binary.LittleEndian.PutUint64(raw[i+4:], ticks)
			written++
		}
	}
	if written != 2 {
		return errors.New("the installer's times were not found")
	}
	return nil
}
