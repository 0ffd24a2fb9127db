package quota

import (
	"context"
	"sync"
)

// group is a number of goroutines with one owner, who waits for them. It differs
// from a sync.WaitGroup in two ways: waiting can be given up, and goroutines may be
// started while somebody waits.
type group struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when none runs any more; nil while nobody waits
}

// start runs f in a goroutine.
func (g *group) start(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	go func() {
		defer g.end()
		f()
	}()
}

func (g *group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// wait returns when no goroutine of the group runs, or with the error of the
// context when that ends before.
func (g *group) wait(ctx context.Context) error {
	idle := g.whenIdle()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whenIdle returns a channel that is closed when no goroutine runs any more, nil if
// none does.
func (g *group) whenIdle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running > 0 && g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}
