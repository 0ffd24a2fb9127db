package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// list is a registry in memory.
type list struct {
	mu   sync.Mutex
	all  map[string]cluster.Member
	at   map[string]time.Time
	down bool
}

func newList() *list {
	return &list{all: map[string]cluster.Member{}, at: map[string]time.Time{}}
}

func (l *list) Announce(_ context.Context, self cluster.Member) ([]cluster.Seen, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("it does not answer")
	}
	l.all[self.ID], l.at[self.ID] = self, time.Now()
	var seen []cluster.Seen
	for _, id := range slices.Sorted(maps.Keys(l.all)) {
		seen = append(seen, cluster.Seen{Member: l.all[id], Ago: time.Since(l.at[id])})
	}
	return seen, nil
}

func (l *list) Leave(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, id)
	return nil
}

func (l *list) Close() {}

func (l *list) setDown(isDown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = isDown
}

// gateway is one with a watch that runs.
type gateway struct {
	*cluster.Watch
	mu       sync.Mutex
	revision int64
	stop     context.CancelFunc
	done     chan struct{}
}

func start(l *list, id string) *gateway {
	g := &gateway{revision: 1, done: make(chan struct{})}
	g.Watch = cluster.New(cluster.Options{
		Self: func() cluster.Member {
			g.mu.Lock()
			defer g.mu.Unlock()
			return cluster.Member{ID: id, Revision: g.revision}
		},
		Registry: l,
		Log:      slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	go func() {
		g.Run(ctx)
		close(g.done)
	}()
	return g
}

func (g *gateway) halt() {
	g.stop()
	<-g.done
}

func (g *gateway) set(revision int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revision = revision
}

func (g *gateway) states() map[string]cluster.State {
	states := map[string]cluster.State{}
	for _, m := range g.View().Members {
		states[m.ID] = m.State
	}
	return states
}

func expect(t *testing.T, g *gateway, want map[string]cluster.State) {
	t.Helper()
	if got := g.states(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestGatewaysKnowEachOther: who is there, who is behind for too long, who has gone in
// order and who is away.
func TestGatewaysKnowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList()
		a, b := start(l, "a"), start(l, "b")
		<-time.After(5 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "up"})
		if a.Present() != 2 || b.Present() != 2 {
			t.Errorf("%d and %d are there", a.Present(), b.Present())
		}
		a.set(2)
		<-time.After(5 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "up"}) // it may still catch up
		<-time.After(10 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "behind"})
		expect(t, b, map[string]cluster.State{"a": "up", "b": "behind"})
		b.set(2)
		<-time.After(5 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "up"})
		l.setDown(true)
		<-time.After(5 * time.Second)
		if v := a.View(); v.Failure == nil || len(v.Members) != 2 {
			t.Errorf("%+v", v)
		}
		<-time.After(10 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "away"})
		if a.Present() != 1 {
			t.Errorf("%d are there", a.Present())
		}
		l.setDown(false)
		<-time.After(5 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up", "b": "up"})
		b.halt()
		<-time.After(5 * time.Second)
		expect(t, a, map[string]cluster.State{"a": "up"})
		a.halt()
	})
}
