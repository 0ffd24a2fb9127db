// Package documents keeps small documents. Only a writer that has seen the latest version
// of a document can change it. The stores are memory, a directory, or a database that
// gateways share.
//
// A document that somebody keeps changing within a certain time is a lease. Its version
// tells a holder that was too slow from the next one.
package documents

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Document is one document. The tags are its form in a file.
type Document struct {
	// Kind and ID name the document. Both consist of letters, digits, - and _ only.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Scope is the owner of the document.
	Scope string `json:"scope"`
	// Created orders the documents of a kind, together with ID.
	Created time.Time `json:"created"`
	// IsOpen says that there is work left to do.
	IsOpen bool `json:"open"`
	// Bytes is the room on disk that it accounts for.
	Bytes int64 `json:"bytes"`
	// Version grows by one with each change. In Put it is the version that the caller has
	// seen, 0 for a new document.
	Version int64 `json:"version"`
	// Data is its content.
	Data jsontext.Value `json:"data"`
	// Age is the time since the last change, by the clock of the store.
	Age time.Duration `json:"-"`
}

// Query says which documents are listed.
type Query struct {
	Kind string
	// Scopes limit the list to documents of these scopes; none means all.
	Scopes []string
	// OnlyOpen lists only documents with work left to do.
	OnlyOpen bool
	// After is the id of the document before the first of the list; empty for the
	// beginning. The document may have been deleted if NewID made the id, or if
	// AfterCreated has its time of creation.
	After        string
	AfterCreated time.Time
	// IsAscending lists the oldest first, not the newest.
	IsAscending bool
	// Limit is how many are listed; 0 is all.
	Limit int
	// OnlyNames leaves Data out, which is not read then.
	OnlyNames bool
}

// PlaceOfDeleted returns when the document After was created if it does not exist any
// more. An id without a time is ErrNotFound.
func (q *Query) PlaceOfDeleted() (time.Time, error) {
	if !q.AfterCreated.IsZero() {
		return q.AfterCreated, nil
	}
	if created, ok := createdOf(q.After); ok {
		return created, nil
	}
	return time.Time{}, ErrNotFound
}

// Use is the number of documents, and the room on disk that they account for.
type Use struct {
	Count int
	Bytes int64
}

// Errors of a Store.
var (
	// ErrNotFound means that there is no such document.
	ErrNotFound = errors.New("no such document")
	// ErrChanged means that the document has changed since the caller saw it.
	ErrChanged = errors.New("the document has changed")
	// ErrUnavailable means that the store does not answer, or not in time.
	ErrUnavailable = errors.New("the store of files and batches does not answer")
)

// Store keeps documents. All of its methods may be called at the same time.
type Store interface {
	// Get returns a document, or ErrNotFound.
	Get(ctx context.Context, kind, id string) (Document, error)
	// List returns documents in their order. A Query.After that neither exists nor has a
	// time is ErrNotFound.
	List(ctx context.Context, query Query) ([]Document, error)
	// Put stores a document and returns its new version, or ErrChanged if its version
	// differs from the stored one.
	Put(ctx context.Context, doc Document) (int64, error)
	// Delete removes a document. One that does not exist is no error.
	Delete(ctx context.Context, kind, id string) error
	// Use returns the use of a kind in a scope, and the use of the whole kind.
	Use(ctx context.Context, kind, scope string) (own, all Use, err error)
	// Uses returns the use of a kind in each scope.
	Uses(ctx context.Context, kind string) (map[string]Use, error)
}

// page is how many documents Each reads at a time.
const page = 100

// Each calls a function with documents in their order until it returns false or an error.
// Few of them are in memory at a time, and visit may delete its document. It ends with
// the context, also where the store does not.
func Each(ctx context.Context, store Store, query Query, visit func(Document) (more bool, err error)) error {
	query.Limit = page
	for {
		docs, err := store.List(ctx, query)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			if err := ctx.Err(); err != nil {
				return err
			}
			more, err := visit(doc)
			if err != nil || !more {
				return err
			}
			query.After, query.AfterCreated = doc.ID, doc.Created
		}
		if len(docs) < page {
			return nil
		}
	}
}
