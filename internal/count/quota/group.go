package quota

import (
	"context"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

// group is a number of goroutines with one owner, who waits for them. It differs
// from a sync.WaitGroup in two ways: waiting can be given up, and goroutines may be
// started while others wait.
type group struct {
	mu      sync.Mutex
	running int
	idle    waiting.Signal // no goroutine runs any more
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
	if g.running--; g.running == 0 {
		g.idle.Tell()
	}
}

// wait returns when no goroutine of the group runs, or with the error of the
// context when that ends before.
func (g *group) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	idle := g.idle.Changed()
	g.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
