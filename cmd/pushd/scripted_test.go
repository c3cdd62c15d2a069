package main_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// scripted is a server that is no pushd, on a port of its own.
func scripted(t *testing.T, handle http.HandlerFunc) (base string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}
