package documents

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/durable"
)

// Local keeps documents for one process: in memory, and in a directory if it has one.
type Local struct {
	dir *durable.Dir // nil where nothing outlives the process

	mu   sync.Mutex
	docs map[name]kept
	use  map[name]Use // by kind and scope, with an empty kind for the sum of all scopes
}

// name is what a document, or a scope of a kind, is found by.
type name struct{ kind, id string }

type kept struct {
	Document
	changed time.Time
}

var _ Store = (*Local)(nil)

// NewMemory returns a store whose documents end with the process.
func NewMemory() *Local { return &Local{docs: map[name]kept{}, use: map[name]Use{}} }

// OpenDir returns the store in a directory, which it makes if there is none. A document that
// cannot be read is reported and passed over, so that it does not take the others with it.
func OpenDir(path string, log *slog.Logger) (*Local, error) {
	dir, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	l := NewMemory()
	l.dir = dir
	now := time.Now()
	for _, file := range names {
		doc, err := l.read(file)
		if err != nil {
			log.Error("a document cannot be read and is passed over", "file", dir.Path(file), "error", err)
			continue
		}
		l.set(doc, now)
	}
	return l, nil
}

// stored is a document as a file has it.
type stored struct {
	Kind    string         `json:"kind"`
	ID      string         `json:"id"`
	Scope   string         `json:"scope"`
	Created time.Time      `json:"created"`
	Open    bool           `json:"open"`
	Bytes   int64          `json:"bytes"`
	Version int64          `json:"version"`
	Data    jsontext.Value `json:"data"`
}

func (l *Local) read(file string) (Document, error) {
	data, err := l.dir.Read(file)
	if err != nil {
		return Document{}, err
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return Document{}, err
	}
	if fileOf(s.Kind, s.ID) != file {
		return Document{}, fmt.Errorf("it is the document %s, which has another file", fileOf(s.Kind, s.ID))
	}
	return Document{
		Kind: s.Kind, ID: s.ID, Scope: s.Scope, Created: s.Created, IsOpen: s.Open, Bytes: s.Bytes, Version: s.Version, Data: s.Data,
	}, nil
}

func fileOf(kind, id string) string { return kind + "." + id + ".json" }

// Get returns a document, or ErrNotFound.
func (l *Local) Get(_ context.Context, kind, id string) (Document, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.docs[name{kind, id}]
	if !ok {
		return Document{}, ErrNotFound
	}
	return found.now(time.Now()), nil
}

func (k kept) now(now time.Time) Document {
	k.Age = max(0, now.Sub(k.changed))
	k.Data = bytes.Clone(k.Data)
	return k.Document
}

// Put stores a document and returns its new version.
func (l *Local) Put(_ context.Context, doc Document) (int64, error) {
	if err := CheckName(doc.Kind, doc.ID); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.docs[name{doc.Kind, doc.ID}].Version != doc.Version {
		return 0, ErrChanged
	}
	doc.Version++
	doc.Data = bytes.Clone(doc.Data)
	if l.dir != nil {
		data, err := json.Marshal(stored{doc.Kind, doc.ID, doc.Scope, doc.Created, doc.IsOpen, doc.Bytes, doc.Version, doc.Data}, json.Deterministic(true))
		if err != nil {
			return 0, err
		}
		if err := l.dir.Write(fileOf(doc.Kind, doc.ID), data); err != nil {
			return 0, err
		}
	}
	l.set(doc, time.Now())
	return doc.Version, nil
}

func (l *Local) set(doc Document, now time.Time) {
	l.count(l.docs[name{doc.Kind, doc.ID}].Document, -1)
	l.docs[name{doc.Kind, doc.ID}] = kept{doc, now}
	l.count(doc, 1)
}

// count adds a document to what is used, or takes it away.
func (l *Local) count(doc Document, sign int) {
	if doc.Version == 0 {
		return
	}
	for _, n := range [...]name{{doc.Kind, "in " + doc.Scope}, {doc.Kind, "all"}} {
		use := l.use[n]
		use.Count += sign
		use.Bytes += int64(sign) * doc.Bytes
		if use.Count == 0 {
			delete(l.use, n)
			continue
		}
		l.use[n] = use
	}
}

// Delete removes a document.
func (l *Local) Delete(_ context.Context, kind, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.docs[name{kind, id}]
	if !ok {
		return nil
	}
	if l.dir != nil {
		if err := l.dir.Remove(fileOf(kind, id)); err != nil {
			return err
		}
	}
	l.count(found.Document, -1)
	delete(l.docs, name{kind, id})
	return nil
}

// Use returns what the documents of a kind in a scope take, and what all of the kind do.
func (l *Local) Use(_ context.Context, kind, scope string) (own, all Use, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.use[name{kind, "in " + scope}], l.use[name{kind, "all"}], nil
}

// List returns documents in their order.
func (l *Local) List(_ context.Context, q Query) ([]Document, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var after Document
	if q.After != "" {
		found, ok := l.docs[name{q.Kind, q.After}]
		if !ok {
			return nil, ErrNotFound
		}
		after = found.Document
	}
	now := time.Now()
	order := func(a, b Document) int {
		n := cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
		if !q.IsAscending {
			n = -n
		}
		return n
	}
	var found []Document
	for n, doc := range l.docs {
		switch {
		case n.kind != q.Kind, q.OnlyOpen && !doc.IsOpen, len(q.Scopes) > 0 && !slices.Contains(q.Scopes, doc.Scope):
		case q.After != "" && order(doc.Document, after) <= 0:
		default:
			found = append(found, doc.now(now))
		}
	}
	slices.SortFunc(found, order)
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// CheckName returns an error for names that a document cannot have.
func CheckName(kind, id string) error {
	const longest = 100
	foreign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_", r)
	}
	if kind == "" || id == "" || len(kind)+len(id) > longest || strings.ContainsFunc(kind, foreign) || strings.ContainsFunc(id, foreign) {
		return fmt.Errorf("%q and %q cannot name a document", kind, id)
	}
	return nil
}
