// This file belongs to the wing batches.

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// gatedBackend answers chats, but holds those that come as certain ones until a gate is open.
type gatedBackend struct {
	url     string
	entered chan struct{} // has one for each chat that is held

	mu    sync.Mutex
	came  int
	gates []gate
}

// gate holds so many chats, from one on.
type gate struct {
	from, count int
	open        chan struct{}
}

func startGated(t *testing.T, gates ...gate) *gatedBackend {
	t.Helper()
	b := &gatedBackend{entered: make(chan struct{}, 1000), gates: gates}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// ServeHTTP answers a chat.
func (b *gatedBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	number := b.came
	b.came++
	b.mu.Unlock()
	for _, g := range b.gates {
		if number < g.from || number >= g.from+g.count {
			continue
		}
		b.entered <- struct{}{}
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`)
}

// A gateway that hangs for longer than its lease loses its lines to another one. When it goes
// on, it has answers to lines that others have answered meanwhile, and believes for a while
// that its lease is good, because the test has let it expire in the database: still every line
// has one answer, and nothing is left of the late ones.
func TestAGatewayThatHangsLosesItsLines(t *testing.T) {
	t.Parallel()
	const lines, atOnce = 40, 2
	for name, c := range map[string]struct {
		// answered is how many lines have answers when the gateway hangs, and until how many
		// lines run elsewhere before it goes on; 0 means all.
		answered, until int
	}{
		"before its first answer": {0, 0},
		"in the middle":           {10, 0},
		"and comes back early":    {10, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, folder := storetest.Postgres(t), t.TempDir()
			first := gate{c.answered, atOnce, make(chan struct{})}
			second := gate{c.answered + atOnce + c.until, atOnce, make(chan struct{})}
			if c.until == 0 {
				second.count = 0
			}
			backend := startGated(t, first, second)
			start := func() *child {
				return serving(t, "--data-dir", t.TempDir(), "--set", "batches.enabled=true", "--set", "log.access=false", "--set", "files.folder="+folder,
					"--set", "store.config="+db.URL, "--set", "services.chat.instances=[{name: m, base-url: '"+backend.url+"'}]")
			}
			file := filepath.Join(t.TempDir(), "prompts.txt")
			gatewaytest.WriteFile(t, file, strings.Repeat("Say yes.\n", lines))
			hangs := start()
			id := batchesVerb(t, hangs, "submit", file, "--model", "m")
			await(backend.entered, atOnce)
			hangs.signal(syscall.SIGSTOP)
			close(first.open) // what it has asked for is answered
			expireLeases(t, db.URL)
			other := start()
			if c.until > 0 {
				await(backend.entered, atOnce)
				hangs.signal(syscall.SIGCONT)
				hangs.ask(http.MethodGet, "/v1/batches/"+id, "").Succeeds(t)
				close(second.open)
			}
			want := fmt.Sprintf("completed: %d of %d", lines, lines)
			if ended := batchesVerb(t, other, "follow", id); !strings.Contains(ended, want) {
				t.Fatal(ended)
			}
			results := batchesVerb(t, other, "results", id)
			for i := range lines {
				if n := strings.Count(results, fmt.Sprintf(`"custom_id":"line-%d",`, i+1)); n != 1 {
					t.Errorf("line %d has %d answers", i+1, n)
				}
			}
			hangs.signal(syscall.SIGCONT)
			if ended := batchesVerb(t, hangs, "follow", id); !strings.Contains(ended, want) {
				t.Errorf("the gateway that went on says %s", ended)
			}
			hangs.signal(syscall.SIGTERM)
			hangs.exits(exitOK)
			if batchesVerb(t, other, "results", id) != results {
				t.Error("the results have changed")
			}
			if n := countOf(t, other, id); n != lines {
				t.Errorf("%d lines have ended", n)
			}
			if _, err := os.Stat(filepath.Join(folder, "answers", id)); !os.IsNotExist(err) {
				t.Errorf("late answers are left in the folder: %v", err)
			}
			if n := strings.Count(other.ask(http.MethodGet, "/v1/files", "").Succeeds(t).Body, `"object":"file"`); n != 2 {
				t.Errorf("there are %d files, want the lines and the answers", n)
			}
		})
	}
}

func await(from <-chan struct{}, count int) {
	for range count {
		<-from
	}
}

// batchesVerb runs a command about batches and returns what it writes.
func batchesVerb(t *testing.T, at *child, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(append(append([]string{"batches"}, args...), "--url", at.url()), nil, &out, &errs); code != exitOK {
		t.Fatalf("%v: %d %s", args, code, errs.String())
	}
	return strings.TrimSpace(out.String())
}

// expireLeases makes all leases of lines a minute older.
func expireLeases(t *testing.T, url string) {
	t.Helper()
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	done, err := conn.Exec(ctx, "UPDATE patchbay_documents SET changed = changed - interval '1 minute' WHERE kind = 'lease'")
	if err != nil || done.RowsAffected() == 0 {
		t.Fatalf("%d leases: %v", done.RowsAffected(), err)
	}
}
