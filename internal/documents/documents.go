// Package documents keeps small documents that are changed only by those who have seen their
// latest version: in memory, in a directory, or in a database that gateways share.
//
// A document that somebody keeps changing within a certain time is a lease, and its version
// the number by which a holder that was too slow is told apart from the next one.
package documents

import (
	"context"
	"errors"
	"time"
)

// Document is one document.
type Document struct {
	// Kind and ID name the document. Both consist of letters, digits, - and _ only.
	Kind, ID string
	// Scope is to whom it belongs.
	Scope string
	// Created orders the documents of a kind, together with ID.
	Created time.Time
	// IsOpen says that there is work left to do.
	IsOpen bool
	// Bytes is how much room on disk it stands for.
	Bytes int64
	// Data is its content, in JSON.
	Data []byte
	// Version grows by one with each change. In Put it is the version that the caller has
	// seen, 0 for a new document.
	Version int64
	// Age is the time since the last change, by the clock of the store.
	Age time.Duration
}

// Query says which documents are listed.
type Query struct {
	Kind string
	// Scopes are those whose documents are listed; none means all.
	Scopes []string
	// OnlyOpen lists only those with work left to do.
	OnlyOpen bool
	// After is the id of the document after which the list begins; empty for the first.
	After string
	// IsAscending lists the oldest first, not the newest.
	IsAscending bool
	// Limit is how many are listed; 0 is all.
	Limit int
}

// Use is how many documents there are, and how much room they stand for.
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
)

// Store keeps documents. All of its methods may be called at the same time.
type Store interface {
	// Get returns a document, or ErrNotFound.
	Get(ctx context.Context, kind, id string) (Document, error)
	// List returns documents in their order. An unknown Query.After is ErrNotFound.
	List(ctx context.Context, query Query) ([]Document, error)
	// Put stores a document and returns its new version, or ErrChanged if its version is
	// not that of the one that is stored.
	Put(ctx context.Context, doc Document) (int64, error)
	// Delete removes a document. One that does not exist is no error.
	Delete(ctx context.Context, kind, id string) error
	// Use returns what the documents of a kind in a scope take, and what all of the kind do.
	Use(ctx context.Context, kind, scope string) (own, all Use, err error)
}
