package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

const (
	jsonMedia   = "application/json"
	ndjsonMedia = "application/x-ndjson"
)

// media is the request's media type, one of those allowed. Only a body that is
// empty may lack it: a page of another site can send one without.
func (c *call) media(allowed ...string) (string, error) {
	header := c.r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(header)
	if err == nil {
		for _, one := range allowed {
			if kind == one && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8")) {
				return kind, nil
			}
		}
	}
	if header == "" {
		header = "none"
	}
	return "", refuse(wrongMedia, "the body must be %s in UTF-8, its Content-Type is %s", strings.Join(allowed, " or "), quote(header))
}

// body reads a JSON body whole, at most limits.max_body_bytes of it and in at
// most BodyTimeout.
func (c *call) body() ([]byte, error) {
	if _, err := c.media(jsonMedia); err != nil {
		return nil, err
	}
	return c.readBody()
}

func (c *call) readBody() ([]byte, error) { return c.readAtMost(c.limits().MaxBodyBytes) }

// trusted is how much of a body's length is believed before it is there: what is
// only announced must cost nothing.
const trusted = 64 << 10

// readAtMost reads a body whole, if it has at most limit bytes.
func (c *call) readAtMost(limit int64) ([]byte, error) {
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Now().Add(c.cfg.BodyTimeout))
	var buf bytes.Buffer
	if n := c.r.ContentLength; n > 0 && n <= limit {
		buf.Grow(int(min(n, trusted)) + bytes.MinRead)
	}
	if c.r.ContentLength > limit {
		c.w.Header().Set("Connection", "close")
		return nil, &http.MaxBytesError{Limit: limit}
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(bare(c.w), c.r.Body, limit))
	if err == nil {
		// The handler may wait: for that the connection must have no deadline.
		err = ignoreUnsupported(control.SetReadDeadline(time.Time{}))
	}
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // net/http returns it bare
		err = refuse(malformed, "the body ended before its length")
	}
	return buf.Bytes(), err
}

// object reads a body that is one JSON object, or none where all is optional.
func (c *call) object(known []string, f *faults) (*object, error) {
	if c.r.ContentLength == 0 || c.r.Body == http.NoBody {
		return &object{faults: f}, nil
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	o, ok := newObject(body[skipSpace(body, 0):], "", known, f)
	if !ok {
		return nil, f.err()
	}
	return o, nil
}

// noFields reads a body that may only be empty or {}.
func (c *call) noFields() error {
	f := &faults{}
	if _, err := c.object(nil, f); err != nil {
		return err
	}
	return f.err()
}

// ignoreUnsupported lets a writer without deadlines pass: only tests have one.
func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// bare is net/http's own writer, which MaxBytesReader tells to close the
// connection; it does not look beneath a wrapper.
func bare(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}
