package web

import (
	"net"
	"net/http"
	"sync"
)

// Silent holds the connections of an http.Server that have received nothing, not even the
// beginning of HTTP/2. A shutdown of the server waits for them, because a request may be on
// its way; Close does not.
type Silent struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// ConnState notes a connection for as long as nothing has come. It is for
// http.Server.ConnState.
func (s *Silent) ConnState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.conns, c)
	case s.closed:
		_ = c.Close()
	default:
		if s.conns == nil {
			s.conns = make(map[net.Conn]struct{})
		}
		s.conns[c] = struct{}{}
	}
}

// Close closes the connections that have received nothing, and further such ones from now
// on.
func (s *Silent) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
}
