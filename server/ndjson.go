package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// Bounds of an NDJSON push.
const (
	maxLines   = 10_000
	batchLines = 256
	batchBytes = 4 << 20
	lineSlack  = 128 << 10 // what a line may hold besides its payload, escapes included
)

// line is one line on its way: refused already, or to be pushed.
type line struct {
	number int
	item   pushItem
	err    error
}

// pushLines is POST /v1/actions as NDJSON. Each line is a group of its own, and
// as many as have arrived go to the store in one call: they share a commit.
func (c *call) pushLines() error {
	control := http.NewResponseController(c.w)
	if err := ignoreUnsupported(control.EnableFullDuplex()); err != nil {
		return err
	}
	out := newLineAnswers(c.w)
	defer out.finish()
	body := &patientBody{c.r.Body, control, c.cfg.BodyTimeout, out}
	in := &lineReader{r: bufio.NewReaderSize(body, 64<<10), most: int(c.limits().MaxPayloadBytes) + lineSlack}
	commit, committed := c.committer(out)
	defer committed()
	for {
		batch, err := c.readBatch(in)
		commit <- batch
		if err != nil {
			return nil
		}
	}
}

// committer pushes batches in their order while the next one is being read: the
// disk and the network need not wait for each other. committed waits for the last.
func (c *call) committer(out *lineAnswers) (commit chan<- []*line, committed func()) {
	batches, failed := make(chan []*line), make(chan any, 1)
	go func() {
		defer func() { failed <- recover() }() // a panic is the request's, not the process's
		defer func() {
			for range batches { // whom a panic left sending
			}
		}()
		for batch := range batches {
			c.pushBatch(batch)
			for _, l := range batch {
				out.add(l)
			}
		}
	}()
	return batches, func() {
		close(batches)
		if what := <-failed; what != nil {
			panic(what)
		}
	}
}

// readBatch reads the lines that are there, at least one. An error ends the body,
// cleanly or not; what went wrong is then the last line of the batch.
func (c *call) readBatch(in *lineReader) ([]*line, error) {
	decoder := c.pushDecoder()
	decoder.trace = traceOf(c.r)
	var batch []*line
	for size := 0; len(batch) < batchLines && size < batchBytes; {
		text, err := in.next()
		switch {
		case errors.Is(err, io.EOF):
			return batch, err
		case errors.Is(err, errLongLine):
			batch = append(batch, &line{number: in.number, err: refuse(tooLarge, "the line is longer than limits.max_payload_bytes allows")})
		case err != nil:
			return append(batch, &line{number: in.number, err: lineFault(err)}), err
		case len(bytes.TrimSpace(text)) > 0:
			size += len(text)
			batch = append(batch, readLine(decoder, in.number, text))
		}
		if len(batch) > 0 && !in.ready() {
			break
		}
	}
	return batch, nil
}

func lineFault(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	if fault := judge(err); fault.kind == tooSlow {
		return fault
	}
	return refuse(malformed, "the body broke off in this line")
}

func readLine(d *pushDecoder, number int, text []byte) *line {
	l := &line{number: number}
	if l.err = checkJSON(text); l.err != nil {
		return l
	}
	f := &faults{}
	l.item = d.read(text[skipSpace(text, 0):], "", f)
	l.err = f.err()
	return l
}

// pushBatch pushes what can be pushed and leaves each line with its answer.
func (c *call) pushBatch(batch []*line) {
	var groups [][]ackstore.NewAction
	var sent []*line
	for _, l := range batch {
		if l.err == nil {
			l.err = c.admitLine(l)
		}
		if l.err == nil {
			groups = append(groups, []ackstore.NewAction{l.item.action})
			sent = append(sent, l)
		}
	}
	if len(groups) == 0 {
		return
	}
	c.visit.machine = groups[0][0].MachineID
	answers, err := c.store.Push(context.WithoutCancel(c.r.Context()), c.rules(), groups)
	c.countPushed("api", answers)
	for i, l := range sent {
		switch {
		case err != nil:
			l.err = err
		case answers[i].Err != nil:
			l.err = ofLate(answers[i].Err, []pushItem{l.item}, func(_ int, field string) string { return field })
		default:
			l.item.pushed = answers[i].Items[0]
		}
	}
}

func (c *call) admitLine(l *line) error {
	if c.draining.Load() {
		return refuse(draining, "the server is stopping and takes no pushes; send this line again when it is back")
	}
	if err := c.reachPush(l.item, "machine_id"); err != nil {
		return err
	}
	return c.name(&l.item)
}

// answer is the line of the answer.
func (l *line) answer() any {
	if l.err != nil {
		return api.LineError{Line: l.number, Error: judge(l.err).problem()}
	}
	return pushedOf(l.item.pushed)
}

// senderPause is after how long without a byte a sender may be waiting for answers.
const senderPause = 250 * time.Millisecond

// patientBody gives a sender time for each read, not for the whole, and tells of
// its pauses.
type patientBody struct {
	io.Reader
	control *http.ResponseController
	most    time.Duration
	answers *lineAnswers
}

func (b *patientBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.most))
	pause := time.AfterFunc(senderPause, b.answers.pause)
	n, err := b.Reader.Read(p)
	pause.Stop()
	b.answers.resume()
	_ = b.control.SetReadDeadline(time.Time{})
	return n, err
}

var errLongLine = errors.New("server: line too long")

// lineReader reads lines and counts them from 1.
type lineReader struct {
	r      *bufio.Reader
	most   int
	number int // of the line that next gave last
}

// next returns the next line; one that is too long is read over. The line after
// the last allowed one is an error, and nothing is read after it.
func (l *lineReader) next() ([]byte, error) {
	if _, err := l.r.Peek(1); err != nil {
		if !errors.Is(err, io.EOF) {
			l.number++
		}
		return nil, err
	}
	l.number++
	if l.number > maxLines {
		return nil, refuse(tooLarge, "%d lines are taken at most; nothing was read from this one on", maxLines)
	}
	var text []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if long = long || len(text)+len(part) > l.most; !long {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case long:
			return nil, errLongLine
		}
		return text, nil
	}
}

// ready tells whether a whole line can be read without waiting.
func (l *lineReader) ready() bool {
	there, _ := l.r.Peek(l.r.Buffered()) // cannot fail: it is there
	return bytes.IndexByte(there, '\n') >= 0
}
