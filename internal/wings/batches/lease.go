package batches

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// leased is the document of a lease.
type leased struct {
	// Holder names the gateway that has it, empty where none does.
	Holder string `json:"holder,omitzero"`
	// Counts are the lines of a chunk by their outcome so far, and IsComplete says that all
	// of them have ended.
	Counts     Counts `json:"counts,omitzero"`
	IsComplete bool   `json:"complete,omitzero"`
}

// lease is the right of this process to a part of a batch, until it has not renewed it for
// too long.
type lease struct {
	engine  *Engine
	batch   string
	name    string
	version int64
	// renewed is when the last renewal that succeeded was begun.
	renewed time.Time
}

// errTaken means that another gateway has a lease.
var errTaken = errors.New("another gateway has it")

// chunkName names the lease of a chunk, finalName the lease of the end of a batch, and
// checkName the lease of the check of its lines.
func chunkName(number int) string { return strconv.Itoa(number) }

const (
	finalName = "final"
	checkName = "check"
)

func leaseID(batch, name string) string { return batch + "-" + name }

// take takes a lease that is free in the version that was seen, 0 where there is none.
func (e *Engine) take(ctx context.Context, batch, name string, seen int64, counts Counts) (*lease, error) {
	l := &lease{engine: e, batch: batch, name: name, version: seen}
	if err := l.put(ctx, leased{Holder: e.holder, Counts: counts}); err != nil {
		return nil, err
	}
	return l, nil
}

// put renews or ends the lease. errTaken means that another gateway took it.
func (l *lease) put(ctx context.Context, state leased) error {
	began := time.Now()
	data, err := json.Marshal(state, json.Deterministic(true))
	if err != nil {
		return err
	}
	version, err := l.engine.o.Leases.Put(ctx, documents.Document{
		Kind: LeaseKind, ID: leaseID(l.batch, l.name), Scope: l.batch, Created: time.Unix(0, 0), Data: data,
		Version: l.version,
	})
	if errors.Is(err, documents.ErrChanged) {
		return errTaken
	}
	if err == nil {
		l.version, l.renewed = version, began
	}
	return err
}

// holds reports whether nobody else can have taken the lease.
func (l *lease) holds(now time.Time) bool { return now.Sub(l.renewed) < l.engine.o.Lease }

// isFree reports whether a lease may be taken.
func (e *Engine) isFree(doc documents.Document, state leased) bool {
	return state.Holder == "" || doc.Age > e.o.Lease
}

// withLease runs a function while it has a lease, which another gateway gets if this one
// hangs. It returns errTaken where another one has it.
func (e *Engine) withLease(ctx context.Context, batch, name string,
	do func(ctx context.Context, l *lease) error) error {
	var seen int64
	doc, err := e.o.Leases.Get(ctx, LeaseKind, leaseID(batch, name))
	switch {
	case err == nil:
		var state leased
		if err := json.Unmarshal(doc.Data, &state); err != nil {
			return err
		}
		if !e.isFree(doc, state) {
			return errTaken
		}
		seen = doc.Version
	case !errors.Is(err, documents.ErrNotFound):
		return err
	}
	l, err := e.take(ctx, batch, name, seen, Counts{})
	if err != nil {
		return err
	}
	working, cancel := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		if !logs.Contain(e.o.Log, "keeping a lease", func() { l.keep(working, cancel) }) {
			cancel()
		}
	})
	err = do(working, l)
	cancel()
	keeper.Wait()
	return errors.Join(err, l.release())
}

// release gives the lease back, where it is still held.
func (l *lease) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.engine.o.Lease)
	defer cancel()
	if err := l.put(ctx, leased{}); err != nil && !errors.Is(err, errTaken) {
		return err
	}
	return nil
}

// keep renews the lease until the context ends, and ends it where that fails.
func (l *lease) keep(ctx context.Context, lost context.CancelFunc) {
	l.engine.renewing(ctx, func() {
		if err := l.put(ctx, leased{Holder: l.engine.holder}); l.isLost(err) {
			lost()
		}
	})
}

// isLost reports whether another gateway has taken a lease, or may have, by how its renewal
// ended.
func (l *lease) isLost(err error) bool {
	return errors.Is(err, errTaken) || err != nil && !l.holds(time.Now())
}

// renewing calls a function as often as leases have to be renewed, until the context ends.
func (e *Engine) renewing(ctx context.Context, renew func()) {
	waiting.Every(ctx, e.o.Lease/3, func(time.Time) { renew() })
}
