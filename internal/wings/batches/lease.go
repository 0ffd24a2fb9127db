package batches

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
)

// leased is the document of a lease.
type leased struct {
	// Holder names the gateway that has it, empty if none does.
	Holder string `json:"holder,omitzero"`
	// Counts are the lines of a chunk by their outcome so far, and IsComplete is true if all of them
	// have ended.
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
	// ctx ends with the lease, and cancel ends the lease.
	ctx    context.Context //nolint:containedctx // it lives as long as the lease
	cancel context.CancelFunc
	// state returns what the document holds, without the holder.
	state func() leased
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

// take takes a lease that is free in the version that was seen, 0 if there is none. The method keep
// must be called.
func (e *Engine) take(ctx context.Context, batch, name string, seen int64, state func() leased) (*lease, error) {
	l := &lease{engine: e, batch: batch, name: name, version: seen, state: state}
	if err := l.renew(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l, nil
}

// renew renews the lease. errTaken means that another gateway took it.
func (l *lease) renew(ctx context.Context) error {
	state := l.state()
	state.Holder = l.engine.holder
	return l.put(ctx, state)
}

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

// keep renews the lease until it ends, because it is lost or not needed any more, and gives it back:
// others need not wait for it.
func (l *lease) keep() {
	defer l.cancel()
	e := l.engine
	bounded := func(most time.Duration, put func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), most)
		defer cancel()
		return put(ctx)
	}
	logs.Contain(e.o.Log, "keeping a lease", func() {
		e.renewing(l.ctx, func() {
			err := bounded(e.o.Lease/3, l.renew)
			if errors.Is(err, errTaken) || err != nil && time.Since(l.renewed) >= e.o.Lease {
				l.cancel()
			}
		})
	})
	l.cancel()
	err := bounded(e.o.Lease, func(ctx context.Context) error { return l.put(ctx, l.state()) })
	if err != nil && !errors.Is(err, errTaken) {
		e.o.Log.Warn("a part of a batch could not be given back; others wait until its lease is over",
			"batch", l.batch, "error", err)
	}
}

// seenLease is a lease as it was read. The zero value is a lease that no gateway has had.
type seenLease struct {
	leased

	version int64
	isHeld  bool // it may not be taken
}

// leasesOf returns the leases of a batch by their names.
func (e *Engine) leasesOf(ctx context.Context, batch string) (map[string]seenLease, error) {
	docs, err := e.o.Leases.List(ctx, documents.Query{Kind: LeaseKind, Scopes: []string{batch}})
	if err != nil {
		return nil, err
	}
	found := make(map[string]seenLease, len(docs))
	for _, doc := range docs {
		seen := seenLease{version: doc.Version}
		if err := json.Unmarshal(doc.Data, &seen.leased); err != nil {
			return nil, err
		}
		seen.isHeld = seen.Holder != "" && doc.Age <= e.o.Lease
		found[strings.TrimPrefix(doc.ID, leaseID(batch, ""))] = seen
	}
	return found, nil
}

// withLease runs a function while it has a lease, which another gateway gets if this one
// hangs: the context of the function ends then. It returns errTaken if another gateway has it. The
// version of the lease differs from those of earlier holders.
func (e *Engine) withLease(ctx context.Context, batch, name string,
	do func(ctx context.Context, version int64) error) error {
	leases, err := e.leasesOf(ctx, batch)
	if err != nil {
		return err
	}
	if leases[name].isHeld {
		return errTaken
	}
	l, err := e.take(ctx, batch, name, leases[name].version, func() leased { return leased{} })
	if err != nil {
		return err
	}
	version := l.version
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer l.cancel()
	keeping.Go(l.keep)
	return do(l.ctx, version)
}

// renewing calls a function as often as leases have to be renewed, until the context ends.
func (e *Engine) renewing(ctx context.Context, renew func()) {
	waiting.Every(ctx, e.o.Lease/3, func(time.Time) { renew() })
}
