package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// The log file of a Windows service, which no journal and no logrotate keeps
// small.
const (
	logMost  = 10 << 20 // bytes of one file
	logFiles = 5        // kept beside the one in use
)

// logFile is a log that is moved aside when it is full: NAME.1 is the one before,
// and the oldest is thrown away.
type logFile struct {
	mu   sync.Mutex
	path string
	f    *os.File
	size int64
	most int64
}

func openLog(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	l := &logFile{path: path, most: logMost}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log: %w", err), f.Close())
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends a line, which is never split over two files. A log that cannot be
// moved aside goes on as it is.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.most {
		if err := l.turn(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// turn moves each file one place on and begins a new one.
func (l *logFile) turn() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	_ = os.Remove(l.aside(logFiles)) // it may not be there yet
	for i := logFiles - 1; i >= 0; i-- {
		if err := os.Rename(l.aside(i), l.aside(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return l.open()
}

// aside is where the i-th file lies; 0 is the one in use.
func (l *logFile) aside(i int) string {
	if i == 0 {
		return l.path
	}
	return fmt.Sprintf("%s.%d", l.path, i)
}

// Close ends the log.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
