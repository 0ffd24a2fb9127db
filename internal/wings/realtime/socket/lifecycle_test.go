package socket_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// aKey is a configuration in which callers need a key, and management a token.
func aKey() string {
	return "security:\n  enabled: true\n  keys: [{id: k, key-sha256: " + gatewaytest.HashOf("the-key") + "}, {id: other, key-sha256: " + gatewaytest.HashOf("other-key") +
		"}]\n  tokens: [{name: a, role: ADMIN, token-sha256: " + gatewaytest.HashOf("admin-token") + "}]\n"
}

// Whoever has no key, or comes from a page that may not read replies, gets no WebSocket, and
// is told why in the form of the API. Other faults of the request are told, too.
func TestWhoMayOpenASocket(t *testing.T) {
	t.Parallel()
	r, _ := start(t, aKey()+"server: {cors-origins: ['https://app.example']}\n")
	key := []string{"Authorization", "Bearer the-key"}
	for name, row := range map[string]struct {
		headers []string
		status  int
		code    string
	}{
		"a key":               {key, http.StatusSwitchingProtocols, ""},
		"another header":      {[]string{"X-Api-Key", "the-key"}, http.StatusSwitchingProtocols, ""},
		"no key":              {nil, http.StatusUnauthorized, "invalid_api_key"},
		"a wrong key":         {[]string{"Authorization", "Bearer wrong"}, http.StatusUnauthorized, "invalid_api_key"},
		"an allowed origin":   {append(key, "Origin", "https://app.example"), http.StatusSwitchingProtocols, ""},
		"the own origin":      {append(key, "Origin", r.URL), http.StatusSwitchingProtocols, ""},
		"another origin":      {append(key, "Origin", "https://evil.example"), http.StatusForbidden, "permission_denied"},
		"no origin of a page": {append(key, "Origin", "null"), http.StatusForbidden, "permission_denied"},
		"two origins":         {append(key, "Origin", r.URL, "Origin", "https://evil.example"), http.StatusForbidden, "permission_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s, reply := r.Dial(responsesPath, row.headers...)
			if reply.Status != row.status {
				t.Fatalf("%d %s", reply.Status, reply.Body)
			}
			if s == nil && gatewaytest.ErrorOf(t, reply.Body).Code != row.code {
				t.Errorf("%s", reply.Body)
			}
		})
	}
	head := "GET /v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer the-key\r\n"
	for request, want := range map[string]int{
		head + "Connection: close\r\n\r\n":                          http.StatusMethodNotAllowed,
		head + "Connection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n": http.StatusMethodNotAllowed,
		head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 12\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n":                                   http.StatusBadRequest,
		head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n":                                                      http.StatusBadRequest,
		head + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n":                                                                                  http.StatusBadRequest,
		strings.Replace(head, "1.1", "1.0", 1) + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n": http.StatusMethodNotAllowed,
	} {
		if reply := r.SendRaw(request); reply.Status != want || !strings.Contains(reply.Body, `"error"`) {
			t.Errorf("%q is answered with %d %s, want %d", request, reply.Status, reply.Body, want)
		}
	}
}

// The number of connections is bounded, for each key and in all, and 0 turns them off.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := start(t, aKey()+"limits: {websockets: {connections: 3, per-key: 2}}\n")
	first := r.OpenSocket(responsesPath, "Authorization", "Bearer the-key")
	r.OpenSocket(responsesPath, "Authorization", "Bearer the-key")
	if _, reply := r.Dial(responsesPath, "Authorization", "Bearer the-key"); reply.Status != http.StatusTooManyRequests || gatewaytest.ErrorOf(t, reply.Body).Code != "concurrency_limit_reached" {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	r.OpenSocket(responsesPath, "Authorization", "Bearer other-key")
	if scraped := r.Do(http.MethodGet, "/metrics", "", "Authorization", "Bearer admin-token").Succeeds(t).Body; !strings.Contains(scraped, "\nmodel_router_websockets_open 3\n") {
		t.Error("the metrics do not count 3 open WebSockets")
	}
	if _, reply := r.Dial(responsesPath, "Authorization", "Bearer other-key"); reply.Status != http.StatusServiceUnavailable || gatewaytest.ErrorOf(t, reply.Body).Code != "overloaded" {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	if err := first.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	gatewaytest.Eventually(t, "there is room again", func() bool {
		s, _ := r.Dial(responsesPath, "Authorization", "Bearer other-key")
		return s != nil
	})
	r.ReloadWith(gatewaytest.ChatYAML() + aKey() + "limits: {websockets: {connections: 0}}\n")
	if _, reply := r.Dial(responsesPath, "Authorization", "Bearer the-key"); reply.Status != http.StatusUpgradeRequired {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}

// A key that is revoked, or that has expired, loses its connection within a second or two,
// and what runs there ends.
func TestAKeyThatEndsLosesItsConnection(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*gatewaytest.Gateway){
		"revoked": func(r *gatewaytest.Gateway) {
			r.API(http.MethodDelete, "/api/auth/keys/issued", "", "Authorization", "Bearer admin-token").Is(r.T, http.StatusOK)
		},
		"expired": func(r *gatewaytest.Gateway) {
			soon := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)
			r.API(http.MethodPut, "/api/auth/keys/issued", `{"expiresAt":"`+soon+`"}`, "Authorization", "Bearer admin-token").Is(r.T, http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := start(t, aKey(), simulator.Step{Hang: true})
			issued := gatewaytest.DataOf[struct {
				Key string `json:"key"`
			}](t, r.API(http.MethodPost, "/api/auth/keys", `{"id":"issued"}`, "Authorization", "Bearer admin-token").Is(t, http.StatusCreated))
			s := r.OpenSocket(responsesPath, "Authorization", "Bearer "+issued.Key)
			s.Send(messageTo("m", `"input":"hi"`))
			gatewaytest.Eventually(t, "the backend has the request", func() bool { return len(b.Requests()) == 1 })
			end(r)
			last, _ := s.Last()
			if last["type"] != "error" || last["status"] != float64(http.StatusUnauthorized) {
				t.Errorf("%v", last)
			}
			if code := s.Closed(); code != websocket.StatusPolicyViolation {
				t.Errorf("closed with %d", code)
			}
			isFree(t, r)
		})
	}
}

// isFree waits until the only instance has nothing to do.
func isFree(t *testing.T, r *gatewaytest.Gateway) {
	t.Helper()
	gatewaytest.Eventually(t, "the backend is free", func() bool { return r.Instances("m")[0].InFlight() == 0 })
}

// A client that goes away frees its backend, however it goes.
func TestAClientThatLeavesFreesItsBackend(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*testing.T, *rawSocket){
		"a frame that closes": func(t *testing.T, s *rawSocket) {
			t.Helper()
			s.frame(0x88, true, []byte{0x03, 0xe8})
		},
		"a reset": func(t *testing.T, s *rawSocket) {
			t.Helper()
			_ = s.conn.(*net.TCPConn).SetLinger(0)
			_ = s.conn.Close()
		},
		"the end of what it sends": func(t *testing.T, s *rawSocket) {
			t.Helper()
			_ = s.conn.(*net.TCPConn).CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, b := start(t, "", simulator.Step{Hang: true})
			s := dialRaw(t, r, responsesPath)
			s.frame(0x81, true, []byte(messageTo("m", `"input":"hi"`)))
			gatewaytest.Eventually(t, "the backend has the request", func() bool { return len(b.Requests()) == 1 })
			leave(t, s)
			isFree(t, r)
			if _, failed, cancelled := gatewaytest.Outcomes(r.Instances("m")[0]); failed != 0 || cancelled != 1 {
				t.Errorf("%d failed, %d cancelled", failed, cancelled)
			}
		})
	}
}

// A stop lets what runs end, and what waits behind it, and then closes the connection. Idle
// connections are closed at once.
func TestAStopDrainsConnections(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, "server: {shutdown-grace: 10m}\n"+gatewaytest.ChatYAML(gatewaytest.Instance("held", held.URL)))
	idle, busy := r.OpenSocket(responsesPath), r.OpenSocket(responsesPath)
	busy.Send(messageTo("held", `"input":"hi"`))
	<-held.Entered
	busy.Send(messageTo("held", `"input":"waits"`))
	busy.Ask(`{}`) // so that the one before was taken
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop(context.WithoutCancel(t.Context()))
	}()
	if code := idle.Closed(); code != websocket.StatusGoingAway {
		t.Errorf("the idle one was closed with %d", code)
	}
	busy.Send(messageTo("held", `"stream_id":"new","input":"late"`))
	if last, _ := busy.Last(); gatewaytest.At(t, last, "error/code") != "service_unavailable" {
		t.Errorf("%v", last)
	}
	close(held.Open)
	for range 2 {
		last, _ := busy.Last()
		idOf(t, last)
	}
	if code := busy.Closed(); code != websocket.StatusGoingAway {
		t.Errorf("the busy one was closed with %d", code)
	}
	<-stopped
}

// Connections on which nothing happens, that are old, or whose clients do not answer pings
// are closed; not so those on which something runs.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		settings string
		want     websocket.StatusCode
		code     string
	}{
		"idle": {"idle: 1s", websocket.StatusNormalClosure, ""},
		"old":  {"lifetime: 1s", websocket.StatusNormalClosure, "websocket_connection_limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := gatewaytest.StartHeldBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("held", held.URL))+"limits: {websockets: {"+row.settings+"}}\n")
			s := r.OpenSocket(responsesPath)
			s.Send(messageTo("held", `"input":"hi"`))
			<-held.Entered
			time.AfterFunc(3*time.Second/2, func() { close(held.Open) })
			last, _ := s.Last()
			idOf(t, last)
			if row.code != "" {
				if event := s.Event(); gatewaytest.At(t, event, "error/code") != row.code {
					t.Errorf("%v", event)
				}
			}
			if code := s.Closed(); code != row.want {
				t.Errorf("closed with %d", code)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		r, b := start(t, "limits: {websockets: {ping: 1s}}\n", simulator.Step{Hang: true})
		s := dialRaw(t, r, responsesPath)
		s.frame(0x81, true, []byte(messageTo("m", `"input":"hi"`)))
		gatewaytest.Eventually(t, "the backend has the request", func() bool { return len(b.Requests()) == 1 })
		isFree(t, r) // nobody answers the pings
	})
	t.Run("answering", func(t *testing.T) {
		t.Parallel()
		held := gatewaytest.StartHeldBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("held", held.URL))+"limits: {websockets: {ping: 1s}}\n")
		s := r.OpenSocket(responsesPath)
		s.Send(messageTo("held", `"input":"hi"`))
		time.AfterFunc(5*time.Second/2, func() { close(held.Open) })
		last, _ := s.Last() // reading answers the pings
		idOf(t, last)
	})
}

// rawSocket is a WebSocket that a test writes byte by byte.
type rawSocket struct {
	t    *testing.T
	conn net.Conn
	from *bufio.Reader
}

func dialRaw(t *testing.T, r *gatewaytest.Gateway, path string) *rawSocket {
	t.Helper()
	conn := r.DialRaw()
	from := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"+
		"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	return &rawSocket{t, conn, from}
}

// frame sends a frame, given its first byte.
func (s *rawSocket) frame(first byte, masked bool, payload []byte) {
	s.t.Helper()
	head := []byte{first, 0}
	switch n := len(payload); {
	case n < 126:
		head[1] = byte(n)
	case n < 1<<16:
		head[1] = 126
		head = binary.BigEndian.AppendUint16(head, uint16(n))
	default:
		head[1] = 127
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	if masked {
		head[1] |= 0x80
		head = append(head, 0, 0, 0, 0) // which leaves the payload as it is
	}
	_, _ = s.conn.Write(append(head, payload...)) // the gateway may have closed it
}

// ending returns the status with which the gateway closes the connection, 0 without one. It
// passes over what comes before.
func (s *rawSocket) ending() int {
	s.t.Helper()
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(s.from, head); err != nil {
			return 0
		}
		length := int(head[1] & 0x7f)
		if length == 126 {
			more := make([]byte, 2)
			if _, err := io.ReadFull(s.from, more); err != nil {
				return 0
			}
			length = int(binary.BigEndian.Uint16(more))
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(s.from, payload); err != nil {
			return 0
		}
		if head[0] == 0x88 && length >= 2 {
			return int(binary.BigEndian.Uint16(payload))
		}
	}
}

// What breaks the protocol ends the connection with the status that the protocol has for it,
// and the gateway serves everybody else.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "limits: {json-body: 64KiB}\n")
	big := make([]byte, 80<<10)
	for name, row := range map[string]struct {
		send func(*rawSocket)
		want int
	}{
		"not masked":                {func(s *rawSocket) { s.frame(0x81, false, []byte("{}")) }, 1002},
		"an unknown kind":           {func(s *rawSocket) { s.frame(0x83, true, nil) }, 1002},
		"a reserved bit":            {func(s *rawSocket) { s.frame(0xc1, true, []byte("{}")) }, 1002},
		"a continuation of nothing": {func(s *rawSocket) { s.frame(0x80, true, []byte("x")) }, 1002},
		"a fragment amid a message": {func(s *rawSocket) {
			s.frame(0x01, true, []byte("{"))
			s.frame(0x81, true, []byte("}"))
		}, 1002},
		"a long control frame": {func(s *rawSocket) { s.frame(0x89, true, make([]byte, 126)) }, 1002},
		"a ping in fragments":  {func(s *rawSocket) { s.frame(0x09, true, nil) }, 1002},
		"bytes":                {func(s *rawSocket) { s.frame(0x82, true, []byte("{}")) }, 1003},
		"too large":            {func(s *rawSocket) { s.frame(0x81, true, big) }, 1009},
		"too large in fragments": {func(s *rawSocket) {
			for range 40 {
				s.frame(0x01, true, big[:2<<10])
				s.frame(0x00, true, big[:2<<10])
				s.frame(0x80, true, big[:2<<10])
			}
			s.frame(0x01, true, big[:40<<10])
			s.frame(0x80, true, big[:40<<10])
		}, 1009},
		"a length that is not sent": {func(s *rawSocket) {
			_, _ = s.conn.Write([]byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
			_, _ = s.conn.Write(big)
		}, 1009},
		"a negative length": {func(s *rawSocket) {
			_, _ = s.conn.Write([]byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
		}, 1002},
		"many pings": {func(s *rawSocket) {
			for range 500 {
				s.frame(0x89, true, []byte("x"))
			}
		}, 1008},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dialRaw(t, r, responsesPath)
			row.send(s)
			if got := s.ending(); got != row.want && got != 0 || got == 0 && row.want != 1002 {
				t.Errorf("closed with %d, want %d", got, row.want)
			}
			r.Post(responsesPath, `{"model":"m","input":"hi"}`).Succeeds(t)
		})
	}
}

// A client that sends a part of a message which ends the connection, and then neither the rest
// nor its own end, holds nothing.
func TestHalfAMessageHoldsNothing(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + "limits: {json-body: 64KiB}\n", AnswerTokens: 40})
	endless := func(first byte) []byte {
		return []byte{first, 0xff, 0, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	}
	for name, row := range map[string]struct {
		begins []byte
		want   int
	}{
		"bytes":     {endless(0x82), 1003},
		"too large": {append(endless(0x81), make([]byte, 2<<20)...), 1009},
	} {
		for _, path := range []string{responsesPath, realtimePath} {
			s := dialRaw(t, r, path)
			go func() { _, _ = s.conn.Write(row.begins) }() // the gateway may have closed it
			if got := s.ending(); got != row.want {
				t.Errorf("%s at %s: closed with %d", name, path, got)
			}
			gatewaytest.Eventually(t, "the connection is over", func() bool {
				return strings.Contains(r.Do(http.MethodGet, "/metrics", "").Succeeds(t).Body, "\nmodel_router_websockets_open 0\n")
			})
			gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
		}
	}
}

// A message that is not understood is answered with an error, and the connection stays.
func TestMessagesThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	r, b := start(t, "")
	s := r.OpenSocket(responsesPath)
	for message, want := range map[string]struct {
		status float64
		code   string
	}{
		``:                      {400, "invalid_json"},
		`{`:                     {400, "invalid_json"},
		`[]`:                    {400, "invalid_json"},
		`"x"`:                   {400, "invalid_json"},
		"{\"type\":\"\xff\"}":   {400, "invalid_json"},
		`{"type":"a","type":1}`: {400, "invalid_json"},
		strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000): {400, "invalid_json"},
		`{}`:                                            {400, "missing_parameter"},
		`{"type":1}`:                                    {400, "missing_parameter"},
		`{"type":"response.steer","input":"x"}`:         {400, "invalid_value"},
		`{"type":"response.create"}`:                    {400, "missing_parameter"},
		messageTo("m", `"generate":1`):                  {400, "invalid_value"},
		messageTo("m", `"stream_id":""`):                {400, "invalid_value"},
		messageTo("m", `"stream_id":7`):                 {400, "invalid_value"},
		messageTo("m", `"background":true,"input":"x"`): {400, "invalid_value"},
		messageTo("m", `"input":7`):                     {400, "invalid_value"},
		messageTo("m", `"generate":false,"previous_response_id":"resp_x"`): {400, "previous_response_not_found"},
		messageTo("m", `"Input":"x","input":"y"`):                          {400, "invalid_json"},
	} {
		if event := s.Ask(message); event["type"] != "error" || event["status"] != want.status || gatewaytest.At(t, event, "error/code") != want.code {
			t.Errorf("%.80s is answered with %v", message, event)
		}
	}
	if n := len(b.Requests()); n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
	idOf(t, s.Ask(messageTo("m", `"stream":false,"input":"hi"`)))
}

// An answer that fails before it begins is an error, and one that breaks off ends with the
// event that the API has for that. The connection stays.
func TestAnswersThatFail(t *testing.T) {
	t.Parallel()
	r, b := start(t, "")
	s := r.OpenSocket(responsesPath)
	b.Script(simulator.Step{Status: 500}, simulator.Step{Text: "some words here", Stop: simulator.StopReset, After: 2})
	if event := s.Ask(messageTo("m", `"input":"hi"`)); event["type"] != "error" || event["status"] != float64(500) {
		t.Errorf("%v", event)
	}
	if event := s.Ask(messageTo("m", `"input":"hi"`)); event["type"] != "response.failed" {
		t.Errorf("%v", event)
	}
	idOf(t, s.Ask(messageTo("m", `"input":"hi"`)))
}
