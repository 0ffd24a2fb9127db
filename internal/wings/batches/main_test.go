package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// backend is a runner for tests: it answers each line with its name, after a time.
type backend struct {
	room   int
	inAll  int // room of all models
	takes  time.Duration
	answer func(call Call) Answer // nil answers everything
	// presence is that of a model; nil serves all.
	presence func(model string) Presence

	mu      sync.Mutex
	revoked bool
	calls   map[string]int // by custom id
	running int
	most    int
}

func newBackend() *backend {
	return &backend{room: 4, inAll: 1000, takes: time.Second, calls: map[string]int{}}
}

func (b *backend) Room(string, string) int { return b.room }

func (b *backend) RoomInAll() int { return b.inAll }

func (b *backend) Presence(_, model string) Presence {
	if b.presence == nil {
		return Served
	}
	return b.presence(model)
}

func (*backend) AwaitRoom(ctx context.Context, _, _ string, _ func() int) { <-ctx.Done() }

func (b *backend) Stands(files.Owner) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.revoked
}

func (b *backend) Run(ctx context.Context, call Call) Answer {
	b.mu.Lock()
	b.calls[call.CustomID]++
	b.running++
	b.most = max(b.most, b.running)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return Answer{}
	case <-time.After(b.takes):
	}
	if b.answer != nil {
		return b.answer(call)
	}
	return answered(call)
}

// count returns how often a line ran.
func (b *backend) count(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[id]
}

// ran returns how often each line ran.
func (b *backend) ran() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.calls)
}

func answered(call Call) Answer {
	return Answer{Status: http.StatusOK, RequestID: "req_" + call.CustomID, Body: []byte(`{"said":"` + call.CustomID + `"}`), Prompt: 2, Completion: 3, Cost: 5}
}

// house is the disk and the stores of one or several engines.
type house struct {
	t      *testing.T
	folder string
	docs   documents.Store
	leases documents.Store
	keys   *seal.Keys
	bounds files.Settings
	sets   Settings
	owner  files.Owner // of what submit makes
	ahead  func() int64
	// isRemoved says which keys were removed.
	isRemoved func(files.Owner) bool
	shared    bool
}

func newHouse(t *testing.T) *house {
	sets := DefaultSettings()
	sets.Enabled = true
	return &house{t: t, folder: t.TempDir(), bounds: files.DefaultSettings(), sets: sets, owner: owner}
}

// open returns an engine in the house, as a process that begins.
func (h *house) open(runner Runner) *Engine {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	docs, leases := h.docs, h.leases
	if docs == nil {
		local, err := documents.OpenDir(filepath.Join(h.folder, "documents"), log)
		h.check(err)
		docs, leases = local, documents.NewMemory()
	}
	store, err := files.Open(files.Options{
		Documents: docs, Folder: filepath.Join(h.folder, "contents"), Keys: h.keys, Settings: func() files.Settings { return h.bounds }, Log: log, IsShared: h.shared,
	})
	h.check(err)
	return New(Options{
		Documents: docs, Leases: leases, Files: store, Folder: filepath.Join(h.folder, "answers"), Keys: h.keys, Settings: func() Settings { return h.sets },
		LongestLine: func() int64 { return 4096 }, Retention: func() time.Duration { return h.bounds.Retention.Std() }, Runner: runner, Log: log, IsShared: h.shared, IsRemoved: h.isRemoved, Ahead: h.ahead,
	})
}

func (h *house) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// start runs an engine and returns what ends it.
func start(e *Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

const chatEndpoint = "/v1/chat/completions"

// lineOf is a good line.
func lineOf(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":%q,"body":{"model":"m","messages":[]}}`, id, chatEndpoint)
}

func linesOf(n int) string {
	var text strings.Builder
	for i := range n {
		text.WriteString(lineOf(fmt.Sprintf("line-%d", i)) + "\n")
	}
	return text.String()
}

var owner = files.Owner{Key: "alice", Issue: "1", Tenant: "blue"}

// submit uploads lines and makes a batch of them.
func (h *house) submit(e *Engine, text string) Batch {
	h.t.Helper()
	ctx := context.Background()
	upload, err := e.o.Files.Create(ctx, files.File{Owner: h.owner, Filename: "in.jsonl", Purpose: "batch"})
	h.check(err)
	_, err = io.WriteString(upload, text)
	h.check(err)
	file, err := upload.Commit(ctx)
	h.check(err)
	b, err := e.Create(ctx, Batch{Owner: h.owner, Form: OpenAI, Endpoint: chatEndpoint, Input: file.ID, Window: "24h"}, 24*time.Hour)
	h.check(err)
	return b
}

// await waits until a batch has ended.
func (h *house) await(e *Engine, id string) Progress {
	h.t.Helper()
	deadline := time.Now().Add(48 * time.Hour) // of virtual time
	for time.Now().Before(deadline) {
		p, err := e.Get(context.Background(), AnyScope, id)
		h.check(err)
		if p.State.IsEnd() {
			return p
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
	}
	h.t.Fatalf("the batch %s did not end", id)
	return Progress{}
}

// result is a line of the results.
type result struct {
	CustomID string `json:"custom_id"`
	Response *struct {
		Status    int            `json:"status_code"`
		RequestID string         `json:"request_id"`
		Body      jsontext.Value `json:"body"`
	} `json:"response"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// results returns the results in a file.
func (h *house) results(e *Engine, id string) []result {
	h.t.Helper()
	if id == "" {
		return nil
	}
	file, err := e.o.Files.Get(context.Background(), owner.Scope(), id)
	h.check(err)
	content, err := e.o.Files.Open(file)
	h.check(err)
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(content.From(0))
	h.check(err)
	if int64(len(text)) != file.Bytes {
		h.t.Errorf("the file has %d bytes, and is said to have %d", len(text), file.Bytes)
	}
	var all []result
	for line := range strings.Lines(string(text)) {
		var r result
		h.check(json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	return all
}

func idsOf(all []result) []string {
	var ids []string
	for _, r := range all {
		ids = append(ids, r.CustomID)
	}
	return ids
}

// expectIDs wants results of these lines in this order.
func expectIDs(t *testing.T, got []result, want ...string) {
	t.Helper()
	if ids := idsOf(got); !slices.Equal(ids, want) {
		t.Errorf("there are results of %v, want %v", ids, want)
	}
}

var errKilled = errors.New("killed")
