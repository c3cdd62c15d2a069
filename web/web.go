// Package web holds the dashboard: one page, its script and its style, built from
// src and packed by `make web` and committed, so that nobody needs Node to build pushd.
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
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
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

// file is one file, as it is sent to who takes gzip and to who does not.
type file struct {
	packed, plain form
	mediaType     string
}

// form is what one answer carries. Each has its own tag: a cache may hold both.
type form struct {
	body []byte
	tag  string
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
	h.Set("Vary", "Accept-Encoding")
	sent := f.plain
	if takesGzip(r.Header) {
		sent = f.packed
		h.Set("Content-Encoding", "gzip")
		if r.Header.Get("If-Match") == "" { // which ServeContent may answer without a body
			h.Set("Content-Length", strconv.Itoa(len(sent.body)))
		}
	}
	h.Set("ETag", sent.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(sent.body))
}

// takesGzip tells whether gzip is named and not refused; "gzip;q=0" refuses it.
func takesGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, params, err := mime.ParseMediaType(coding)
		if err != nil || name != "gzip" {
			continue
		}
		weight, err := strconv.ParseFloat(params["q"], 64)
		return err != nil || weight > 0 // it need not be there
	}
	return false
}

// load reads what is embedded, which is packed, and unpacks it, once.
func load() map[string]*file {
	files := map[string]*file{}
	names, _ := fs.Glob(dist, "dist/*.gz") // the pattern is well formed
	for _, name := range names {
		packed, plain, err := read(name)
		if err != nil {
			continue // embedded: cannot be
		}
		name = strings.TrimSuffix(path.Base(name), ".gz")
		files[name] = &file{packed: packed, plain: plain, mediaType: mediaTypes[path.Ext(name)]}
	}
	return files
}

func read(name string) (packed, plain form, err error) {
	body, err := dist.ReadFile(name)
	if err != nil {
		return form{}, form{}, err
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return form{}, form{}, err
	}
	unpacked, err := io.ReadAll(z)
	return tagged(body), tagged(unpacked), err
}

func tagged(body []byte) form {
	sum := sha256.Sum256(body)
	return form{body, `"` + hex.EncodeToString(sum[:8]) + `"`}
}
