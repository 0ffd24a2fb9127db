package gatewaytest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Socket is a client's end of a WebSocket.
type Socket struct {
	*websocket.Conn
	T *testing.T
}

// Dial opens a WebSocket and returns the reply to the request for it, too. The Socket is nil
// if the gateway refused.
func (r *Gateway) Dial(path string, headers ...string) (*Socket, Reply) {
	r.T.Helper()
	header := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		header.Add(headers[i], headers[i+1])
	}
	transport := r.Client.Transport.(checkedTransport).Transport
	conn, response, err := websocket.Dial(Deadline(r.T), "ws"+strings.TrimPrefix(r.URL, "http")+path,
		&websocket.DialOptions{
			HTTPClient: &http.Client{Transport: transport}, HTTPHeader: header,
		})
	if response == nil {
		r.T.Fatal(err)
	}
	if err != nil {
		return nil, ReadReply(response)
	}
	r.T.Cleanup(func() { _ = conn.CloseNow() })
	const most = 64 << 20
	conn.SetReadLimit(most)
	return &Socket{conn, r.T}, Reply{Status: response.StatusCode, Header: response.Header}
}

// OpenSocket opens a WebSocket.
func (r *Gateway) OpenSocket(path string, headers ...string) *Socket {
	r.T.Helper()
	s, reply := r.Dial(path, headers...)
	if s == nil {
		r.T.Fatalf("no WebSocket: %d %s", reply.Status, reply.Body)
	}
	return s
}

// Send sends a message.
func (s *Socket) Send(text string) {
	s.T.Helper()
	if err := s.Write(Deadline(s.T), websocket.MessageText, []byte(text)); err != nil {
		s.T.Fatal(err)
	}
}

// Next returns the next message.
func (s *Socket) Next() (string, error) {
	_, text, err := s.Read(Deadline(s.T))
	return string(text), err
}

// Event returns the next message, an event.
func (s *Socket) Event() map[string]any {
	s.T.Helper()
	text, err := s.Next()
	if err != nil {
		s.T.Fatal(err)
	}
	return DecodeObject(s.T, text)
}

// Last returns the event that ends an answer, and all before it.
func (s *Socket) Last() (last map[string]any, before []map[string]any) {
	s.T.Helper()
	for {
		event := s.Event()
		switch event["type"] {
		case "response.completed", "response.incomplete", "response.failed", "error":
			return event, before
		}
		before = append(before, event)
	}
}

// Ask sends a message and returns the event that ends the answer.
func (s *Socket) Ask(text string) map[string]any {
	s.T.Helper()
	s.Send(text)
	last, _ := s.Last()
	return last
}

// Closed waits until the gateway has closed the connection, and returns how.
func (s *Socket) Closed() websocket.StatusCode {
	s.T.Helper()
	for {
		if _, err := s.Next(); err != nil {
			if context.Cause(Deadline(s.T)) != nil {
				s.T.Fatal(err)
			}
			return websocket.CloseStatus(err)
		}
	}
}
