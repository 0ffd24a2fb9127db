package governor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

// explain adds to an explanation the run that the request would belong to.
func (h *handler) explain(view *explain.Explanation, asked survey.Subject) {
	g := h.governor
	if g == nil || asked.Request == nil {
		return
	}
	found := g.known.Of(asked.KeyID, asked.Header, asked.Request, g.options.Settings.By)
	if found.ID == "" {
		return
	}
	who := identity{asked.KeyID, quota.UserName(found.ID)}
	now := time.Now()
	g.mu.Lock()
	r := g.wake(who)
	g.mu.Unlock()
	v := RunView{Name: who.name}
	if r != nil && !r.isOver(now, g.idle()) {
		v = g.view(r)
	} else {
		v.Limits = h.limitsOf(asked)
	}
	view.Run = &explain.Run{
		ID: v.ID, Name: v.Name, Sign: found.Sign.String(), Reason: v.Reason, Limits: limitsLeft(&v, now),
	}
	if v.Loop != nil {
		view.Run.Loop = v.Loop.Rule.String()
	}
}

// limitsOf returns the limits of a run that would begin.
func (h *handler) limitsOf(asked survey.Subject) limitsView {
	limits, tenant := h.governor.options.Settings.Limits, asked.Tenant
	for _, key := range h.core.Credentials.Keys.List() {
		if asked.KeyID != "" && key.ID == asked.KeyID {
			limits, tenant = limits.Lesser(key.Runs), key.Tenant
		}
	}
	doc, _ := h.core.Control.Document()
	limits = limits.Lesser(tenantLimits(doc, tenant))
	return limitsView{viewAmounts(limits.Amounts()), limits.Time, limits.Concurrency}
}

// limitsLeft returns the limits of a run with what is left of each.
func limitsLeft(v *RunView, now time.Time) []explain.RunLimit {
	list := []explain.RunLimit{}
	add := func(unit string, limit, used, reserved float64) {
		if limit > 0 {
			list = append(list, explain.RunLimit{Unit: unit, Limit: limit, Used: used,
				Left: max(0, limit-used-reserved)})
		}
	}
	const micro = 1e6
	add("cost", float64(v.Limits.Cost.Micros())/micro, float64(v.Used.Cost.Micros())/micro,
		float64(v.Reserved.Cost.Micros())/micro)
	add("tokens", float64(v.Limits.Tokens), float64(v.Used.Tokens), float64(v.Reserved.Tokens))
	add("requests", float64(v.Limits.Requests), float64(v.Used.Requests), float64(v.Reserved.Requests))
	lasted := 0.0
	if !v.Started.IsZero() {
		lasted = float64(now.Sub(v.Started).Milliseconds())
	}
	add("time", float64(v.Limits.Time.Std().Milliseconds()), lasted, 0)
	add("concurrency", float64(v.Limits.Concurrency), float64(v.UnderWay), 0)
	return list
}
