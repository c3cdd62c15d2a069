// Package web holds the dashboard: one page, its script and its style, built from
// src by `make web` and committed, so that nobody needs Node to build pushd.
//
// It promises the bytes and the headers under which a browser may run them. It
// holds no data and knows no caller: that is the API's.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed dist
var dist embed.FS

// policy lets the page run its own files and talk to its own server, and nothing
// else: no inline script or style, no foreign origin, no frame around it, and no
// text that becomes HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is one file as it is sent.
type file struct {
	body, packed []byte
	mediaType    string
	tag          string
}

// Handler serves the page at every path of the dashboard's own, and its files below
// /assets/, whose names change with their content.
func Handler() http.Handler {
	files := sync.OnceValue(load)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, caching := "index.html", "no-cache"
		switch {
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			name, caching = strings.TrimPrefix(r.URL.Path, "/assets/"), "public, max-age=31536000, immutable"
		case r.URL.Path == "/favicon.ico":
			name, caching = "icon.svg", "public, max-age=86400"
		}
		f := files()[name]
		guard(w.Header())
		if f == nil {
			http.Error(w, "there is no such file", http.StatusNotFound)
			return
		}
		f.send(w, r, caching)
	})
}

// guard sets what holds for every answer.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

func (f *file) send(w http.ResponseWriter, r *http.Request, caching string) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Cache-Control", caching)
	h.Set("ETag", f.tag)
	h.Set("Vary", "Accept-Encoding")
	body := f.body
	if f.packed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("ETag", strings.TrimSuffix(f.tag, `"`)+`-gz"`)
		body = f.packed
	}
	if match := r.Header.Get("If-None-Match"); match != "" && strings.Contains(match, h.Get("ETag")) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // who does not take it is gone
	}
}

// load reads what is embedded and packs it, once.
func load() map[string]*file {
	files := map[string]*file{}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return files // embedded: cannot be
	}
	for _, e := range entries {
		body, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			continue
		}
		sum := sha256.Sum256(body)
		f := &file{body: body, mediaType: mediaTypes[path.Ext(e.Name())], tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
		if packed := pack(body); len(packed) < len(body) {
			f.packed = packed
		}
		files[e.Name()] = f
	}
	return files
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return body
	}
	_, _ = z.Write(body) // into memory
	_ = z.Close()
	return b.Bytes()
}
