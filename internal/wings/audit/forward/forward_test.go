package forward_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

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
		c.End(context.Background(), "", audit.Record{Time: audit.Stamp(time.Now()), Who: "ann", Action: action})
	}
	c.Close()
}

// A syslog server gets every record and head, in order, as messages of RFC 5424.
func TestSyslogGetsRecordsAndHeads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for scheme, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": path} {
		listener, err := net.Listen(scheme, address)
		if err != nil {
			t.Fatal(err)
		}
		messages := make(chan string, 100)
		go func() {
			defer close(messages)
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			from := bufio.NewReader(conn)
			for {
				length, err := from.ReadString(' ')
				if err != nil {
					return
				}
				n, _ := strconv.Atoi(strings.TrimSpace(length)) // 0 ends the test below
				text := make([]byte, n)
				if _, err := io.ReadFull(from, text); err != nil {
					return
				}
				messages <- string(text)
			}
		}()
		at := "tcp://" + listener.Addr().String()
		if scheme == "unix" {
			at = "unix://" + path
		}
		target, err := forward.Syslog(at)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		begin(t, dir, target.Name)
		record(t, dir, target, "one", "zwei\n")
		var kinds []string
		for message := range messages {
			found := received.FindStringSubmatch(message)
			if found == nil {
				t.Fatalf("%s: %q", scheme, message)
			}
			kinds = append(kinds, found[1])
			if r, err := audit.Read([]byte(found[2])); found[1] == "record" && err != nil {
				t.Errorf("%s: %+v, %v", scheme, r, err)
			}
		}
		if got := strings.Join(kinds, " "); got != "record record head" {
			t.Errorf("%s: %s", scheme, got)
		}
		_ = listener.Close() // the test is over
	}
}

// begin lets a target get the records from the first one on.
func begin(t *testing.T, dir, name string) {
	t.Helper()
	if err := durable.At(dir).Write("sent-"+name+".json", []byte(`{"chain":1,"seq":0}`)); err != nil {
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
	target := func() audit.Target { return forward.OTLP(server.URL+"/", map[string]string{"X-Token": "secret"}) }
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
