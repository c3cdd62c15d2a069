package server

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
)

// load takes the sessions of the server's last life. Without a file there are none.
func (s *sessions) load() error {
	if s.file == "" {
		return nil
	}
	raw, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var written map[string]session
	if err := json.Unmarshal(raw, &written); err != nil {
		return fmt.Errorf("server: %s: %w", s.file, err)
	}
	byKey := make(map[sessionKey]session, len(written))
	for text, e := range written {
		key, err := hex.DecodeString(text)
		if err != nil || len(key) != len(sessionKey{}) {
			return fmt.Errorf("server: %s: %q is no session", s.file, text)
		}
		byKey[sessionKey(key)] = e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey = byKey
	return nil
}

// save writes the sessions down, if they have changed since it did.
func (s *sessions) save() error {
	if s.file == "" {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	changed, now := s.unsaved, maps.Clone(s.byKey)
	s.unsaved = false
	s.mu.Unlock()
	if !changed {
		return nil
	}
	written := make(map[string]session, len(now))
	for key, e := range now {
		written[hex.EncodeToString(key[:])] = e
	}
	raw, err := json.Marshal(written)
	if err == nil {
		err = replaceFile(s.file, raw)
	}
	if err != nil {
		s.mu.Lock()
		s.unsaved = true
		s.mu.Unlock()
	}
	return err
}

// replaceFile puts a whole file in the place of another, for its owner alone.
func replaceFile(path string, raw []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename last; Windows has no such thing and needs none.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
