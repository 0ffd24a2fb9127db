package board

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Kind is the kind of the documents on a board.
const Kind = "run"

// shelf is a board of documents. A document counts as created when its run was told last. All are open:
// stores find the open documents of a kind in the order of their creation without reading the others.
type shelf struct {
	docs  documents.Store
	idle  time.Duration
	close func()
}

// NewDocuments returns a board of documents on which a run is over that was idle for a time. It calls
// close when it is closed.
func NewDocuments(docs documents.Store, idle time.Duration, close func()) Board {
	return &shelf{docs, idle, close}
}

// tries is how often a run is told that other gateways tell of at the same time.
const tries = 3

func (b *shelf) Tell(ctx context.Context, runs []Run) (told int, err error) {
	for i := range runs {
		if err := b.tell(ctx, &runs[i]); err != nil {
			return i, err
		}
	}
	return len(runs), nil
}

func (b *shelf) tell(ctx context.Context, run *Run) error {
	told := *run
	for range tries {
		before, err := b.docs.Get(ctx, Kind, run.ID)
		if err != nil && !errors.Is(err, documents.ErrNotFound) {
			return err
		}
		// A run that was over before this one began has the same id, and no more.
		if found, ok := read(before.Data); ok && run.Began.Before(found.Used.Add(b.idle)) {
			told.Terms = latest(found.Terms, run.Terms)
		}
		doc, err := Document(&told, time.Now())
		if err != nil {
			return err
		}
		doc.Version = before.Version
		if _, err = b.docs.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
			return err
		}
	}
	return documents.ErrChanged
}

// Document returns the document of a run that is told at a time.
func Document(run *Run, told time.Time) (documents.Document, error) {
	data, err := write(run)
	return documents.Document{Kind: Kind, ID: run.ID, Scope: run.Owner, Created: told, IsOpen: true, Data: data}, err
}

// Read returns the run of a document. It returns false if there is none in it.
func Read(doc *documents.Document) (Run, bool) {
	run, ok := read(doc.Data)
	return run, ok && run.ID == doc.ID
}

// latest returns the terms that were decided last: the gateway that tells may not know them yet.
func latest(before, now string) string {
	known, isRead := budget.ReadTerms(before)
	if told, ok := budget.ReadTerms(now); isRead && ok && known.Version > told.Version {
		return before
	}
	return now
}

func (b *shelf) Since(ctx context.Context, since time.Time) (runs []Run, err error) {
	query := documents.Query{Kind: Kind, OnlyOpen: true, IsAscending: true, After: "0", AfterCreated: since}
	err = documents.Each(ctx, b.docs, query, func(doc documents.Document) (bool, error) {
		if run, ok := Read(&doc); ok {
			runs = append(runs, run)
		}
		return true, nil
	})
	return runs, err
}

// Displaced implements Board. Documents are not looked at: they are read one by one.
func (b *shelf) Displaced(context.Context) ([]string, error) { return nil, nil }

// mostSwept bounds the removals at a time.
const mostSwept = 1000

func (b *shelf) Sweep(ctx context.Context, before time.Time) error {
	old, err := b.docs.List(ctx, documents.Query{Kind: Kind, OnlyOpen: true, IsAscending: true, OnlyNames: true,
		Limit: mostSwept})
	for _, doc := range old {
		if err != nil || !doc.Created.Before(before) {
			break
		}
		err = b.docs.Delete(ctx, Kind, doc.ID)
	}
	return err
}

func (b *shelf) Close() { b.close() }
