package forward_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/forward"
)

var received = regexp.MustCompile(`^<110>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ patchbay \d+ (record|head) - (\{.*\})$`)

// record lets a chain with a target make records, and stops it.
func record(t *testing.T, dir string, target audit.Target, actions ...string) {
	t.Helper()
	c, err := audit.Open(audit.Options{
		Store: audit.NewFiles(durable.At(dir)), Settings: audit.DefaultSettings(), Gateway: "g", Dir: durable.At(dir),
		Targets: []audit.Target{target}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range actions {
		c.End(context.Background(), "", audit.Act{Record: audit.Record{Time: audit.Stamp(time.Now()), Who: "ann", Role: "ADMIN", Action: action}})
	}
	c.Close()
}

// server is a syslog server on a stream.
type server struct {
	net.Listener
	messages chan string
	// most is after how many messages it closes a connection; 0 means never.
	most int
}

// serve takes connections, one after another, until the listener is closed.
func (s *server) serve(t *testing.T) {
	t.Helper()
	defer close(s.messages)
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		from := bufio.NewReader(conn)
		for n := 0; s.most == 0 || n < s.most; n++ {
			length, err := from.ReadString(' ')
			if err != nil {
				break
			}
			size, _ := strconv.Atoi(strings.TrimSpace(length)) // 0 is no message
			text := make([]byte, size)
			if _, err := io.ReadFull(from, text); err != nil {
				break
			}
			if n+1 == s.most {
				_ = conn.Close() // before anybody knows of the message
			}
			s.messages <- string(text)
		}
		_ = conn.Close() // it may be broken
	}
}

// end waits for so many messages, ends the server, and returns the kinds of all that it got.
func (s *server) end(t *testing.T, wanted int) string {
	t.Helper()
	var kinds []string
	if wanted == 0 {
		_ = s.Close() // the test is over
	}
	for message := range s.messages {
		found := received.FindStringSubmatch(message)
		if found == nil {
			t.Fatalf("%q", message)
		}
		kinds = append(kinds, found[1])
		if r, err := audit.Read([]byte(found[2])); found[1] == "record" && err != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if len(kinds) == wanted {
			_ = s.Close() // the test is over
		}
	}
	return strings.Join(kinds, " ")
}

// A syslog server gets every record and head, in order, as messages of RFC 5424: over TCP, over TLS with a
// private authority, and on this host.
func TestSyslogGetsRecordsAndHeads(t *testing.T) {
	t.Parallel()
	private, ca := privateTLS(t)
	path := filepath.Join(t.TempDir(), "log")
	for scheme, address := range map[string]string{"tcp": "127.0.0.1:0", "tls": "127.0.0.1:0", "unix": path} {
		network := strings.Replace(scheme, "tls", "tcp", 1)
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		at := scheme + "://" + listener.Addr().String()
		if scheme == "tls" {
			listener = tls.NewListener(listener, private)
		}
		s := &server{Listener: listener, messages: make(chan string, 100)}
		go s.serve(t)
		trust, err := outgoing.Trust(ca)
		if err != nil {
			t.Fatal(err)
		}
		target, err := forward.Syslog(at, trust)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		begin(t, dir, target.Name)
		record(t, dir, target, "one", "zwei\n")
		if got := s.end(t, 3); got != "record record head" {
			t.Errorf("%s: %s", scheme, got)
		}
	}
}

// privateTLS returns the settings of a server, and a file with the authority that vouches for it.
func privateTLS(t *testing.T) (config *tls.Config, ca string) {
	t.Helper()
	private := httptest.NewTLSServer(nil)
	t.Cleanup(private.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: private.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: private.TLS.Certificates, MinVersion: tls.VersionTLS12}, ca
}

// A server that the system's authorities do not vouch for gets nothing without audit.ca.
func TestSyslogVerifiesItsServer(t *testing.T) {
	t.Parallel()
	private, _ := privateTLS(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", private)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: listener, messages: make(chan string, 100)}
	go s.serve(t)
	trust, err := outgoing.Trust("")
	if err != nil {
		t.Fatal(err)
	}
	target, err := forward.Syslog("tls://"+listener.Addr().String(), trust)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Send(t.Context(), []audit.Message{{Time: time.Now(), Kind: "record", Text: "{}"}}); err == nil {
		t.Error("a stranger got a record")
	}
	if got := s.end(t, 0); got != "" {
		t.Errorf("a stranger got %s", got)
	}
}

// A server that closes its connections, because it starts anew or nobody wrote for long, gets the next
// messages over another one.
func TestSyslogNoticesAClosedConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: listener, messages: make(chan string), most: 1}
	go s.serve(t)
	target, err := forward.Syslog("tcp://"+listener.Addr().String(), new(tls.Config))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		text := fmt.Sprintf(`{"n":%d}`, n)
		if err := target.Send(t.Context(), []audit.Message{{Time: time.Now(), Kind: "record", Text: text}}); err != nil {
			t.Fatal(err)
		}
		if got := <-s.messages; !strings.HasSuffix(got, text) {
			t.Fatalf("got %q, want %s", got, text)
		}
	}
	target.Close()
	s.end(t, 0)
}

// begin lets a target get the records from the first one on.
func begin(t *testing.T, dir, name string) {
	t.Helper()
	if err := durable.At(dir).Write("sent-"+name+".json", []byte(`{"g":{"chain":1,"seq":0},"g/low":{"chain":1,"seq":0}}`)); err != nil {
		t.Fatal(err)
	}
}

// Records of a time when the collector was away come later, once and in order.
func TestACollectorThatWasAwayGetsEverything(t *testing.T) {
	t.Parallel()
	var isAway atomic.Bool
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var export collectorpb.ExportLogsServiceRequest
		if err != nil || proto.Unmarshal(body, &export) != nil || r.URL.Path != "/v1/logs" || r.Header.Get("X-Token") != "secret" || isAway.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for _, r := range export.ResourceLogs[0].ScopeLogs[0].LogRecords {
			what := r.EventName
			if record, err := audit.Read([]byte(r.Body.GetStringValue())); err == nil {
				what = fmt.Sprintf("%s %d", record.Action, record.Seq)
			}
			got = append(got, what)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	target := func() audit.Target { return forward.OTLP(server.URL+"/", map[string]string{"X-Token": "secret"}, nil) }
	begin(t, dir, "otlp")
	record(t, dir, target(), "a")
	isAway.Store(true)
	record(t, dir, target(), "b", "c")
	isAway.Store(false)
	record(t, dir, target(), "d")
	if text := strings.Join(got, ", "); text != "a 1, audit.head, b 2, c 3, d 4, audit.head" {
		t.Error(text)
	}
}

// A collector that redirects gets the records again later; the other server gets neither them nor the key.
func TestCopiesDoNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got %s with key %q", r.URL.Path, r.Header.Get("X-Collector-Key"))
	}))
	defer other.Close()
	collector := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/logs", http.StatusTemporaryRedirect))
	defer collector.Close()
	target := forward.OTLP(collector.URL, map[string]string{"X-Collector-Key": "secret"}, nil)
	defer target.Close()
	err := target.Send(t.Context(), []audit.Message{{Time: time.Now(), Kind: "record", Text: "{}"}})
	if err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("got %v, want an error with status 307", err)
	}
}
