package batches

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Create begins a batch. Its id, its state and its times are set here.
func (e *Engine) Create(ctx context.Context, b Batch, window time.Duration) (Batch, error) {
	prefix := "batch_"
	if b.Form == Anthropic {
		prefix = "msgbatch_"
	}
	b.State = Validating
	b.Created = time.Now().UTC().Truncate(time.Millisecond)
	b.ID = documents.NewID(prefix, b.Created)
	b.Expires = b.Created.Add(min(window, e.o.Settings().Window.Std()))
	if err := e.add(ctx, &b); err != nil {
		return Batch{}, err
	}
	// The batch is stored, and the next round finds it as well: a caller who got an error
	// would make it again.
	e.tell(e.poll(ctx), "looking for batches")
	e.nudge()
	return b, nil
}

// add stores a new batch, if its owner may have one more. One at a time does so, because two
// would both see the last place.
func (e *Engine) add(ctx context.Context, b *Batch) error {
	select {
	case <-e.creating:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { e.creating <- struct{}{} }()
	scope, most := b.Owner.Scope(), e.o.Settings().MaxOpen
	open, err := e.o.Documents.List(ctx, documents.Query{Kind: kind, Scopes: []string{scope}, OnlyOpen: true,
		Limit: most, OnlyNames: true})
	if err != nil {
		return err
	}
	if len(open) >= most {
		return ErrTooMany
	}
	if err := e.makePlace(ctx, scope); err != nil {
		return err
	}
	size, err := e.sizeOf(b)
	if err != nil {
		return err
	}
	if err := e.o.Files.Hold(ctx, scope, size); err != nil {
		return err
	}
	defer func() { _ = e.o.Files.Hold(ctx, scope, -size) }() // it cannot fail
	return e.put(ctx, b)
}

// AnyScope asks for batches of all owners.
const AnyScope = files.AnyScope

// Get returns a batch that is seen in a scope, and how far it is.
func (e *Engine) Get(ctx context.Context, scope, id string) (Progress, error) {
	b, err := e.get(ctx, id)
	if err != nil {
		return Progress{}, err
	}
	if scope != AnyScope && b.Owner.Scope() != scope {
		return Progress{}, ErrNotFound
	}
	return e.progress(ctx, b)
}

// Listing says which batches are listed.
type Listing struct {
	// Scope is the scope of their owners, or AnyScope, Key the key that made them, and Form
	// their form; empty for all.
	Scope, Key string
	Form       Form
	// After is the id of the batch before the first of the list; empty to begin at the
	// first.
	After string
	// IsAscending lists the oldest first, not the newest.
	IsAscending bool
	Limit       int
}

// List returns batches, and whether there are more. An after that tells no place is
// ErrNotFound.
func (e *Engine) List(ctx context.Context, l Listing) (found []Progress, hasMore bool, err error) {
	query := documents.Query{After: l.After, IsAscending: l.IsAscending}
	err = e.each(ctx, query, l.Scope, func(b Batch) (bool, error) {
		if l.Form != "" && b.Form != l.Form || l.Key != "" && b.Owner.Key != l.Key {
			return true, nil
		}
		if len(found) == l.Limit {
			hasMore = true
			return false, nil
		}
		p, err := e.progress(ctx, b)
		found = append(found, p)
		return true, err
	})
	if errors.Is(err, documents.ErrNotFound) {
		err = ErrNotFound
	}
	return found, hasMore, err
}

// progress adds to a batch how far it is.
func (e *Engine) progress(ctx context.Context, b Batch) (Progress, error) {
	p := Progress{Batch: b}
	if b.State.IsEnd() || b.Started.IsZero() {
		return p, nil
	}
	e.mu.Lock()
	j := e.jobs[b.ID]
	e.mu.Unlock()
	var err error
	if p.Counts, err = e.countsOf(ctx, b, j); err != nil {
		return p, err
	}
	ended := p.Counts.Done + p.Counts.Failed
	if took := time.Since(b.Started); ended > 0 && took > 0 {
		p.Rate = float64(ended) / took.Minutes()
		p.End = time.Now().Add(time.Duration(float64(took) / float64(ended) * float64(b.Lines-ended)))
	}
	if j == nil {
		return p, nil
	}
	p.Problem = j.whyStill()
	if !p.End.IsZero() {
		p.End = j.laterEnd(p.End)
	}
	return p, nil
}

// countsOf returns the lines of a batch by their outcome so far. Other gateways note theirs with
// their leases.
func (e *Engine) countsOf(ctx context.Context, b Batch, j *job) (sum Counts, err error) {
	if !e.o.IsShared && j != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.counts, nil
	}
	leases, err := e.leasesOf(ctx, b.ID)
	for _, seen := range leases {
		sum = sum.plus(seen.Counts)
	}
	return sum, err
}

// laterEnd returns when the batch is expected to end, given when it would if its lines ran now.
// A batch ends when it expires, whatever it waits for.
func (j *job) laterEnd(end time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if waits := time.Until(j.resumes); waits > 0 {
		end = end.Add(waits)
	}
	if end.After(j.batch.Expires) {
		return j.batch.Expires
	}
	return end
}

// Cancel makes a batch stop. Lines that run already end as they would. A batch that stops
// already is no error.
func (e *Engine) Cancel(ctx context.Context, scope, id string) (Progress, error) {
	b, err := e.get(ctx, id)
	if err == nil && scope != AnyScope && b.Owner.Scope() != scope {
		err = ErrNotFound
	}
	if err != nil {
		return Progress{}, err
	}
	b, err = e.stop(ctx, id, nil)
	if err != nil {
		return Progress{}, err
	}
	if b.State.IsEnd() {
		return Progress{Batch: b}, ErrEnded
	}
	return e.progress(ctx, b)
}

// stop makes a batch stop for a reason, nil where its owner wants it.
func (e *Engine) stop(ctx context.Context, id string, why *Fault) (Batch, error) {
	b, err := e.edit(ctx, id, func(b *Batch) bool {
		if b.State.IsEnd() || b.State == Cancelling || b.State == Finalizing {
			return false
		}
		b.State, b.Cancelling = Cancelling, time.Now().UTC()
		if why != nil {
			b.Faults = append(b.Faults, *why)
		}
		return true
	})
	if err == nil {
		e.see(b)
		e.nudge()
	}
	return b, err
}

// Delete removes a batch that has ended, with the files that belong to it alone.
func (e *Engine) Delete(ctx context.Context, scope, id string) error {
	b, err := e.get(ctx, id)
	if err != nil {
		return err
	}
	if b.Owner.Scope() != scope {
		return ErrNotFound
	}
	if !b.State.IsEnd() {
		return ErrNotEnded
	}
	return e.remove(ctx, b)
}

// Uses reports whether a batch that has not ended needs a file.
func (e *Engine) Uses(ctx context.Context, scope, file string) (bool, error) {
	inUse, err := e.inputs(ctx, scope)
	return inUse[file], err
}
