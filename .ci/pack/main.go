// Command pack writes what `make dist` hands out, so that the same sources give
// the same bytes: archives whose members have one time, one owner and one order,
// a list of what a binary is made of, and checksums.
//
//	pack archive OUT.tar.gz|OUT.zip PREFIX NAME=FILE… NAME->TARGET…
//	pack sbom BINARY NAME VERSION OUT.json
//	pack msi SOURCE.wxs STAGE VERSION OUT.msi
//	pack sums DIR
//
// The time is SOURCE_DATE_EPOCH.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(line []string) error {
	if len(line) < 2 {
		return errors.New("see the comment of its source")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(epoch, 0).UTC()
	switch {
	case line[0] == "archive" && len(line) > 3:
		return archive(line[1], line[2], line[3:], at)
	case line[0] == "sbom" && len(line) == 5:
		return sbom(line[1], line[2], line[3], line[4], at)
	case line[0] == "msi" && len(line) == 5:
		return msi(line[1], line[2], line[3], line[4], at)
	case line[0] == "sums" && len(line) == 2:
		return sums(line[1])
	}
	return errors.New("see the comment of its source")
}

// member is a file of an archive, or a link to another.
type member struct{ name, file, target string }

func archive(out, prefix string, specs []string, at time.Time) (err error) {
	var members []member
	for _, spec := range specs {
		if name, target, is := strings.Cut(spec, "->"); is {
			members = append(members, member{name: name, target: target})
		} else if name, file, is := strings.Cut(spec, "="); is {
			members = append(members, member{name: name, file: file})
		} else {
			return fmt.Errorf("%s: write NAME=FILE or NAME->TARGET", spec)
		}
	}
	sort.Slice(members, func(i, j int) bool { return members[i].name < members[j].name })
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if strings.HasSuffix(out, ".zip") {
		return writeZip(f, prefix, members, at)
	}
	return writeTar(f, prefix, members, at)
}

func writeTar(w io.Writer, prefix string, members []member, at time.Time) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(packed)
	for _, m := range members {
		h := &tar.Header{Name: prefix + "/" + m.name, ModTime: at, Mode: 0o644, Format: tar.FormatUSTAR}
		if m.target != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, m.target, 0o777
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			continue
		}
		raw, mode, err := load(m.file)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size, h.Mode = tar.TypeReg, int64(len(raw)), mode
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(raw); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), packed.Close())
}

func writeZip(w io.Writer, prefix string, members []member, at time.Time) error {
	z := zip.NewWriter(w)
	for _, m := range members {
		if m.target != "" {
			return fmt.Errorf("%s: a zip has no links", m.name)
		}
		raw, _, err := load(m.file)
		if err != nil {
			return err
		}
		part, err := z.CreateHeader(&zip.FileHeader{Name: prefix + "/" + m.name, Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		if _, err := part.Write(raw); err != nil {
			return err
		}
	}
	return z.Close()
}

// load reads a file and tells which of two modes it has, whatever the umask was.
func load(path string) (raw []byte, mode int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	mode = 0o644
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	raw, err = os.ReadFile(path)
	return raw, mode, err
}

// component is one of CycloneDX 1.5.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom lists the modules that are linked into a binary, as the binary says it.
func sbom(binary, name, version, out string, at time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	whole := component{Type: "application", Ref: name, Name: name, Version: version}
	parts := []component{{Type: "library", Ref: "std", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	refs := []string{"std"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		c := component{Type: "library", Ref: url, Name: m.Path, Version: m.Version, PURL: url}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		parts, refs = append(parts, c), append(refs, url)
	}
	raw, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":     map[string]any{"timestamp": at.Format(time.RFC3339), "component": whole},
		"components":   parts,
		"dependencies": []map[string]any{{"ref": name, "dependsOn": refs}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(raw, '\n'), 0o644)
}

// sums writes SHA256SUMS over all other files of a folder.
func sums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range files { // sorted by name
		if f.IsDir() || f.Name() == "SHA256SUMS" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		fmt.Fprintf(&lines, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644)
}
