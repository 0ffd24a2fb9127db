package governor

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// savedFile has the runs that the rows of the ledger alone do not describe: those about which
// people have decided, and those that are older than they may be idle.
const savedFile = "runs.json"

// readSaved reads the file of an earlier process.
func (g *Governor) readSaved() {
	if g.options.Data == nil {
		return
	}
	text, err := g.options.Data.Read(savedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all []registry.Run
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		g.options.Log.Error("the decisions about runs of agents cannot be read; raised limits are as they were before",
			"file", savedFile, "error", err)
		return
	}
	for _, one := range all {
		g.saved[budget.RunName(&quota.Key{APIKey: one.Owner, User: one.Name})] = one
	}
}

// saveEvery is how often the file is written while runs are under way. The time of their last use is
// behind by no more.
func (g *Governor) saveEvery() time.Duration {
	return min(max(g.idle()/16, time.Second), time.Minute)
}

// goesOn reports whether the run of a row of the ledger goes on, and keeps the row if so.
func (g *Governor) goesOn(row *quota.Row) bool {
	if row.Key.User == quota.Overflow || row.Key.User == "" {
		return false
	}
	now, last := time.Now(), row.Start
	if saved, ok := g.saved[budget.RunName(&row.Key)]; ok && !saved.Began.Truncate(time.Second).After(row.Start) {
		last = saved.Used.Add(g.saveEvery())
	}
	if now.Sub(last) >= g.idle() {
		return false
	}
	g.find(row)
	return true
}

// find keeps a row of a run that goes on, until it is taken over.
func (g *Governor) find(row *quota.Row) {
	g.finding.Lock()
	defer g.finding.Unlock()
	g.found = append(g.found, *row)
}

// takeFound takes the runs over that go on.
func (g *Governor) takeFound(now time.Time) {
	g.mu.Lock()
	g.finding.Lock()
	found := g.found
	g.found, g.hasTaken = nil, true
	g.finding.Unlock()
	// Where there is no room for all, the oldest ones are lost.
	slices.SortFunc(found, func(a, b quota.Row) int { return a.Start.Compare(b.Start) })
	for i := range found {
		row := &found[i]
		if who := (identity{row.Key.APIKey, row.Key.User}); g.wake(who) == nil {
			g.beginKnown(who, row.Key.Tenant, row.Start, now)
		}
	}
	g.mu.Unlock()
	for _, saved := range g.saved { // one that was refused whatever it asked for has no row
		g.learn(&saved, now)
	}
}

// save writes the file.
func (g *Governor) save(now time.Time) error {
	if g.options.Data == nil {
		return nil
	}
	g.isChanged.Store(false)
	all := []registry.Run{}
	for _, r := range g.every() {
		r.mu.Lock()
		a := r.usage()
		if a.Terms().Version > 0 || now.Sub(a.Began()) >= g.idle()/2 {
			one := r.entry()
			if r.isUnderWay() {
				one.Used = now
			}
			all = append(all, one)
		}
		r.mu.Unlock()
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = g.options.Data.Write(savedFile, text)
	}
	if err != nil {
		g.isChanged.Store(true)
	}
	return err
}

// beginKnown begins a run that was let in earlier or at another gateway, and returns nil if there is no
// room for it; mu is held.
func (g *Governor) beginKnown(who identity, tenant string, began, now time.Time) *run {
	r := g.begin(who, tenant, began)
	if g.seat(r, now) != nil {
		g.forget(r)
		return nil
	}
	return r
}

// all returns the active runs, the one that was used last first.
func (g *Governor) all() []*run {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*run, 0, g.used.Len())
	for e := g.used.Front(); e != nil; e = e.Next() {
		if r, ok := e.Value.(*run); ok {
			all = append(all, r)
		}
	}
	return all
}

// sweep removes the runs that are over.
func (g *Governor) sweep(now time.Time) {
	for _, r := range g.every() {
		if !r.isOver(now, g.idle()) {
			continue
		}
		g.mu.Lock()
		if g.byID[r.id] == r && r.pins == 0 && r.isOver(now, g.idle()) {
			g.forget(r)
		}
		g.mu.Unlock()
	}
}

// sweepRegistry removes the runs from the registry that have been over for long.
func (g *Governor) sweepRegistry(ctx context.Context, now time.Time) {
	if g.options.Registry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	_ = g.options.Registry.Remove(ctx, now.Add(-2*g.idle()-keepPublished)) // the next time does it
}

// Run removes runs that are over and writes the others, until the context ends.
func (g *Governor) Run(ctx context.Context) {
	var file condition.Condition
	saved := time.Now()
	waiting.Every(ctx, time.Second, func(now time.Time) {
		if g.hasFound() {
			g.takeFound(now)
		}
		g.exchange(ctx, now)
		isDue := now.Sub(saved) >= g.saveEvery()
		if isDue {
			g.sweep(now)
			g.sweepRegistry(ctx, now)
		}
		if !isDue && !g.isChanged.Load() {
			return
		}
		saved = now
		file.Note(g.options.Log, g.save(now), "the runs of agents cannot be written; a restart forgets raised limits",
			"the runs of agents are written again")
	})
}

// exchange publishes runs to other gateways, and puts in force what they have decided.
func (g *Governor) exchange(ctx context.Context, now time.Time) {
	if g.options.Registry != nil {
		g.publishStale(ctx, now)
	}
	if g.options.IsPolled && now.Sub(g.others.polled) >= pollEvery {
		g.others.polled = now
		_ = g.meetOthers(ctx, now) // decisions are as they were read last; health shows the store
	}
	g.follow()
}

func (g *Governor) hasFound() bool {
	g.finding.Lock()
	defer g.finding.Unlock()
	return len(g.found) > 0
}

// Close writes the runs and the counts of their ledger.
func (g *Governor) Close(ctx context.Context) error {
	return errors.Join(g.save(time.Now()), g.book.Close(ctx))
}
