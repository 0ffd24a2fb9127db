package documents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// Local keeps documents for one process: in memory, or in a directory with only an index
// in memory.
type Local struct {
	dir *durable.Dir // nil where nothing outlives the process
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*kindIndex
}

// kindIndex finds the documents of a kind.
type kindIndex struct {
	byID   map[string]*kept
	sorted ordered
}

// ordered are documents, the oldest first. They stay in order, because sorting all of them for
// each page of a list takes longer than reading the page.
type ordered []*kept

// place returns where a document is or would be.
func (o ordered) place(doc *Document) (at int, isThere bool) {
	return slices.BinarySearchFunc(o, doc, func(k *kept, doc *Document) int { return compare(&k.Document, doc) })
}

func (o *ordered) add(k *kept) {
	at, _ := o.place(&k.Document)
	*o = slices.Insert(*o, at, k)
}

func (o *ordered) remove(k *kept) {
	if at, isThere := o.place(&k.Document); isThere {
		*o = slices.Delete(*o, at, at+1)
	}
}

// compare orders documents, the oldest first.
func compare(a, b *Document) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
}

// kept is a document, without its data where a directory has it.
type kept struct {
	Document
	changed time.Time
}

var _ Store = (*Local)(nil)

// NewMemory returns a store that loses its documents when the process ends.
func NewMemory() *Local {
	return &Local{kinds: map[string]*kindIndex{}, log: slog.New(slog.DiscardHandler)}
}

// OpenDir returns the store in a directory, which it makes if there is none. A document
// that cannot be read is reported and skipped: the others stay readable.
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
	l.dir, l.log = dir, log
	now := time.Now()
	for _, file := range names {
		doc, err := l.read(file)
		if err != nil {
			l.reportUnreadable(file, err)
			continue
		}
		l.set(doc, now)
	}
	return l, nil
}

func (l *Local) reportUnreadable(file string, err error) {
	l.log.Error("a document cannot be read and is passed over", "file", l.dir.Path(file), "error", err)
}

func (l *Local) read(file string) (doc Document, err error) { return ReadFile(l.dir, file) }

// WriteFile writes a document, with its version, to a directory that no process has open.
func WriteFile(dir *durable.Dir, doc Document) error {
	if err := CheckName(doc.Kind, doc.ID); err != nil {
		return err
	}
	data, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return err
	}
	return dir.Write(fileOf(doc.Kind, doc.ID), data)
}

// ReadFile reads a document of a directory, which another process may have open.
func ReadFile(dir *durable.Dir, file string) (doc Document, err error) {
	data, err := dir.Read(file)
	if err != nil {
		return Document{}, err
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return Document{}, err
	}
	if fileOf(doc.Kind, doc.ID) != file {
		return Document{}, fmt.Errorf("it is the document %s, which has another file", fileOf(doc.Kind, doc.ID))
	}
	return doc, nil
}

func fileOf(kind, id string) string { return kind + "." + id + ".json" }

// Get returns a document, or ErrNotFound.
func (l *Local) Get(_ context.Context, kind, id string) (Document, error) {
	l.mu.Lock()
	found := l.find(kind, id)
	if found == nil {
		l.mu.Unlock()
		return Document{}, ErrNotFound
	}
	doc := found.now(time.Now())
	l.mu.Unlock()
	return l.whole(doc)
}

// find returns a document of the index, nil where there is none.
func (l *Local) find(kind, id string) *kept {
	index := l.kinds[kind]
	if index == nil {
		return nil
	}
	return index.byID[id]
}

func (k *kept) now(now time.Time) Document {
	doc := k.Document
	doc.Age = max(0, now.Sub(k.changed))
	doc.Data = bytes.Clone(doc.Data)
	return doc
}

// whole returns a document of the index with its data.
func (l *Local) whole(doc Document) (Document, error) {
	if l.dir == nil {
		return doc, nil
	}
	found, err := l.read(fileOf(doc.Kind, doc.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, ErrNotFound // it was deleted meanwhile
	}
	found.Age = doc.Age
	return found, err
}

// Put stores a document and returns its new version.
func (l *Local) Put(_ context.Context, doc Document) (int64, error) {
	if err := CheckName(doc.Kind, doc.ID); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var version int64
	if found := l.find(doc.Kind, doc.ID); found != nil {
		version = found.Version
	}
	if version != doc.Version {
		return 0, ErrChanged
	}
	doc.Version++
	doc.Data = bytes.Clone(doc.Data)
	if l.dir != nil {
		if err := WriteFile(l.dir, doc); err != nil {
			return 0, err
		}
	}
	l.set(doc, time.Now())
	return doc.Version, nil
}

// set adds a document to the index and replaces its version before.
func (l *Local) set(doc Document, now time.Time) {
	l.unset(doc.Kind, doc.ID)
	index := l.kinds[doc.Kind]
	if index == nil {
		index = &kindIndex{byID: map[string]*kept{}}
		l.kinds[doc.Kind] = index
	}
	if l.dir != nil {
		doc.Data = nil
	}
	added := &kept{doc, now}
	index.byID[doc.ID] = added
	index.sorted.add(added)
}

// unset takes a document out of the index.
func (l *Local) unset(kind, id string) {
	found := l.find(kind, id)
	if found == nil {
		return
	}
	index := l.kinds[kind]
	delete(index.byID, id)
	index.sorted.remove(found)
	if len(index.byID) == 0 {
		delete(l.kinds, kind)
	}
}

// Delete removes a document.
func (l *Local) Delete(_ context.Context, kind, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.find(kind, id) == nil {
		return nil
	}
	if l.dir != nil {
		if err := l.dir.Remove(fileOf(kind, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.unset(kind, id)
	return nil
}

// Use returns the use of a kind in a scope, and the use of the whole kind.
func (l *Local) Use(_ context.Context, kind, scope string) (own, all Use, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index := l.kinds[kind]; index != nil {
		for _, doc := range index.sorted {
			all = all.plus(doc)
			if doc.Scope == scope {
				own = own.plus(doc)
			}
		}
	}
	return own, all, nil
}

func (u Use) plus(doc *kept) Use { return Use{u.Count + 1, u.Bytes + doc.Bytes} }

// Uses returns the use of a kind in each scope.
func (l *Local) Uses(_ context.Context, kind string) (map[string]Use, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uses := map[string]Use{}
	if index := l.kinds[kind]; index != nil {
		for _, doc := range index.sorted {
			uses[doc.Scope] = uses[doc.Scope].plus(doc)
		}
	}
	return uses, nil
}

// List returns documents in their order.
func (l *Local) List(_ context.Context, q Query) ([]Document, error) {
	found, err := l.list(q)
	if err != nil || l.dir == nil || q.OnlyNames {
		return found, err
	}
	all := found[:0]
	for _, doc := range found {
		whole, err := l.whole(doc)
		switch {
		case err == nil:
			all = append(all, whole)
		case !errors.Is(err, ErrNotFound):
			l.reportUnreadable(fileOf(doc.Kind, doc.ID), err)
		}
	}
	return all, nil
}

// list returns the index entries of documents, in their order.
func (l *Local) list(q Query) ([]Document, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := Document{ID: q.After}
	if q.After != "" {
		if known := l.find(q.Kind, q.After); known != nil {
			after.Created = known.Created
		} else if created, err := q.PlaceOfDeleted(); err == nil {
			after.Created = created
		} else {
			return nil, err
		}
	}
	var found []*kept
	if index := l.kinds[q.Kind]; index != nil {
		found = index.sorted.page(&q, &after)
	}
	now := time.Now()
	docs := make([]Document, len(found))
	for i, doc := range found {
		docs[i] = doc.now(now)
		if q.OnlyNames {
			docs[i].Data = nil
		}
	}
	return docs, nil
}

// page returns the first documents that a query asks for, behind the document after.
func (o ordered) page(q *Query, after *Document) []*kept {
	rest := o
	if q.After != "" {
		at, isThere := o.place(after)
		switch {
		case !q.IsAscending:
			rest = o[:at]
		case isThere:
			rest = o[at+1:]
		default:
			rest = o[at:]
		}
	}
	var found []*kept
	for i := range rest {
		doc := rest[i]
		if !q.IsAscending {
			doc = rest[len(rest)-1-i]
		}
		if q.OnlyOpen && !doc.IsOpen || len(q.Scopes) > 0 && !slices.Contains(q.Scopes, doc.Scope) {
			continue
		}
		found = append(found, doc)
		if len(found) == q.Limit {
			break
		}
	}
	return found
}

// CheckName returns an error for names that a document cannot have.
func CheckName(kind, id string) error {
	const longest = 100
	foreign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_", r)
	}
	if kind == "" || id == "" || len(kind)+len(id) > longest || strings.ContainsFunc(kind, foreign) ||
		strings.ContainsFunc(id, foreign) {
		return fmt.Errorf("%q and %q cannot name a document", kind, id)
	}
	return nil
}
