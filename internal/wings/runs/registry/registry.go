// Package registry keeps the runs of agents that gateways publish to each other in a database: the owner of
// each, its beginning, why its requests are refused, and the decisions about it. The use of a run is in its budget.
package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// Run is a run as a gateway publishes it, and as it is in the file of a gateway that shares no database.
type Run struct {
	// ID is the public id; the other texts are those of the requests of the run.
	ID     string `json:"id"`
	Owner  string `json:"owner,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	User   string `json:"user,omitzero"`
	Name   string `json:"name"`
	Sign   string `json:"sign,omitzero"`
	Model  string `json:"model,omitzero"`
	// Began and Used are the times of the first and of the latest request.
	Began time.Time `json:"began"`
	Used  time.Time `json:"used"`
	// Limits are those of gateway, tenant and key, and Terms the decisions of people, as
	// budget.Terms writes them.
	Limits budget.RunLimits `json:"limits"`
	Terms  string           `json:"terms"`
	// Code and Reason are those of the error of its requests if they are refused.
	Code   string `json:"code,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Kind is the kind of the documents of runs.
const Kind = "run"

// Registry is the published runs. Its methods may be called at the same time.
//
// A document counts as created when its run was published last. All are open: stores find the open documents
// of a kind in the order of their creation without reading the others.
type Registry struct {
	docs documents.Store
	idle time.Duration
}

// New returns a registry of documents. A run is over after it was idle for a time.
func New(docs documents.Store, idle time.Duration) *Registry { return &Registry{docs, idle} }

// tries is how often a run is published that other gateways publish at the same time.
const tries = 3

// Publish stores runs in place of their earlier documents. It returns how many of them, the first ones, are
// stored.
func (r *Registry) Publish(ctx context.Context, runs []Run) (published int, err error) {
	for i := range runs {
		if err := r.publish(ctx, runs[i]); err != nil {
			return i, err
		}
	}
	return len(runs), nil
}

func (r *Registry) publish(ctx context.Context, run Run) error {
	for range tries {
		before, err := r.docs.Get(ctx, Kind, run.ID)
		if err != nil && !errors.Is(err, documents.ErrNotFound) {
			return err
		}
		// A run that was over before this one began has the same id, and no more.
		if found, ok := Read(&before); ok && run.Began.Before(found.Used.Add(r.idle)) {
			run.Terms = latest(found.Terms, run.Terms)
		}
		doc, err := Document(&run, time.Now())
		if err != nil {
			return err
		}
		doc.Version = before.Version
		if _, err = r.docs.Put(ctx, doc); !errors.Is(err, documents.ErrChanged) {
			return err
		}
	}
	return documents.ErrChanged
}

// longestText bounds the reasons of runs.
const longestText = 1000

// Document returns the document of a run that is published at a time.
func Document(run *Run, published time.Time) (documents.Document, error) {
	short := *run
	short.Reason = strings.ToValidUTF8(short.Reason[:min(len(short.Reason), longestText)], "")
	data, err := json.Marshal(short, json.Deterministic(true))
	return documents.Document{Kind: Kind, ID: run.ID, Scope: run.Owner, Created: published, IsOpen: true,
		Data: data}, err
}

// Read returns the run of a document. It returns false if there is none in it.
func Read(doc *documents.Document) (run Run, ok bool) {
	err := json.Unmarshal(doc.Data, &run)
	return run, err == nil && run.ID != "" && run.ID == doc.ID && run.Name != ""
}

// latest returns the terms that were decided last: the gateway that publishes a run may not know them yet.
func latest(before, now string) string {
	known, isRead := budget.ReadTerms(before)
	if published, ok := budget.ReadTerms(now); isRead && ok && known.Version > published.Version {
		return before
	}
	return now
}

// Since returns the runs that were published since a moment, and maybe earlier ones.
func (r *Registry) Since(ctx context.Context, since time.Time) (runs []Run, err error) {
	query := documents.Query{Kind: Kind, OnlyOpen: true, IsAscending: true, After: "0", AfterCreated: since}
	err = documents.Each(ctx, r.docs, query, func(doc documents.Document) (bool, error) {
		if run, ok := Read(&doc); ok {
			runs = append(runs, run)
		}
		return true, nil
	})
	return runs, err
}

// mostRemoved bounds the removals at a time.
const mostRemoved = 1000

// Remove removes the runs that were not published since a moment.
func (r *Registry) Remove(ctx context.Context, before time.Time) error {
	old, err := r.docs.List(ctx, documents.Query{Kind: Kind, OnlyOpen: true, IsAscending: true, OnlyNames: true,
		Limit: mostRemoved})
	for _, doc := range old {
		if err != nil || !doc.Created.Before(before) {
			break
		}
		err = r.docs.Delete(ctx, Kind, doc.ID)
	}
	return err
}
