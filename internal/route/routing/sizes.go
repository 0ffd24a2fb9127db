package routing

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
)

// setPrice sets the price of the model, and the sizes that the list has for it.
func (p *Pool) setPrice(price *prices.Price) {
	p.Price = price
	if price == nil {
		return
	}
	for _, i := range p.Instances {
		i.Listed = engines.Sizes{Window: price.MaxInputTokens, Output: price.MaxOutputTokens}
	}
}

// Sizes returns the largest context window, and the largest answer, of the enabled instances that a
// grant may use. A nil Pool has none.
func (p *Pool) Sizes(grant *access.Grant) (largest engines.Sizes) {
	if p == nil {
		return largest
	}
	for _, i := range p.Instances {
		if !i.Settings.Enabled || i.Share == 0 || !grant.MayCall(i.ID) {
			continue
		}
		sizes := i.Sizes()
		largest.Window, largest.Output = max(largest.Window, sizes.Window), max(largest.Output, sizes.Output)
	}
	return largest
}

// Narrowest returns the smallest context window that is known of an instance that gets traffic, 0 if
// none is, and whether all of them have that one. A nil Pool has none.
func (p *Pool) Narrowest() (window int64, isEven bool) {
	if p == nil {
		return 0, true
	}
	return p.narrowest.Load(), p.isEven.Load()
}

// NoteSizes makes the pools of the table follow the sizes of their instances. It is called after
// these have changed.
func (t *Table) NoteSizes() {
	for _, pool := range t.Pools() {
		narrowest, isEven, isFirst := int64(0), true, true
		for _, i := range pool.Instances {
			if !i.Settings.Enabled || i.Share == 0 {
				continue
			}
			window := i.Sizes().Window
			isEven = isEven && (isFirst || window == narrowest)
			if isFirst || narrowest == 0 || window > 0 && window < narrowest {
				narrowest = window
			}
			isFirst = false
		}
		pool.narrowest.Store(narrowest)
		pool.isEven.Store(isEven)
	}
}

// Rewritten returns an entry of each service type that a name leads to by a pattern only.
func (t *Table) Rewritten(name string) []Model {
	var entries []Model
	for _, s := range t.configured {
		if s.IsRewritten(name) {
			pool := s.Find(name)
			entries = append(entries, Model{ID: name, Target: pool.Model, Service: s.Type,
				Adapter: pool.Instances[0].Kind.TypeName, Created: pool.created(nil)})
		}
	}
	return entries
}
