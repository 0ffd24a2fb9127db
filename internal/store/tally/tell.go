package tally

import (
	"context"
	"errors"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// ErrAway means that the store does not answer. ErrRefused means that it answered and took
// nothing of an exchange.
var (
	ErrAway    = errors.New("what gateways share cannot be reached")
	ErrRefused = errors.New("the store refuses what it is told")
)

// Meet makes the first contact with the store, if there was none. Callers of Tell need
// not wait for it then.
func (p *Pool) Meet(ctx context.Context) {
	p.exchanging.Lock()
	defer p.exchanging.Unlock()
	if p.opened.Load() == nil {
		_ = p.contact(ctx, true) // it is noted
	}
}

// Tell stores totals and returns each sheet as it is then, as Store does. It waits until the
// context ends and not longer, even if the store does. After a failure the store counts as
// away, for everything that gateways share, until it has answered a probe; except for a call
// that only reads, which may be too long for its time.
func (p *Pool) Tell(ctx context.Context, sheets []Sheet, isNews bool) ([]map[string]string, error) {
	type answer struct {
		told []map[string]string
		err  error
	}
	answered := make(chan answer, 1)
	p.mu.Lock()
	store := p.opened.Load()
	if store == nil || p.away.Load() {
		p.mu.Unlock()
		return nil, ErrAway
	}
	p.telling.Go(func() {
		a := answer{err: ErrAway}
		logs.Contain(p.options.Log, "telling other gateways", func() {
			a.told, a.err = (*store).Tell(ctx, sheets, isNews)
		})
		answered <- a
	})
	p.mu.Unlock()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	isRead := !slices.ContainsFunc(sheets, func(s Sheet) bool { return len(s.Totals) > 0 || !s.IsRead })
	if a.err != nil && !isRead && !errors.Is(a.err, context.Canceled) && p.opened.Load() == store {
		p.fail(a.err)
	}
	return a.told, a.err
}

// IsSpread reports whether parts of the store can lose their data alone.
func (p *Pool) IsSpread() bool {
	store := p.opened.Load()
	return store != nil && (*store).IsSpread()
}
