package watch

import (
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// condition is something that is wrong now.
type condition struct {
	// Subject names the account, instance or model, uniquely within its kind.
	Subject string
	Level   level
	Since   time.Time
	// Said says that it is so, and Over that it is not so any more.
	Said, Over say.Sentence
}

// level is how bad a condition is.
type level uint8

const (
	fine level = iota
	warning
	critical
	levels
)

func (l level) String() string { return [levels]string{"", "warning", "critical"}[l] }

// kind is a row of the table of kinds. To add one, add its name to package alerts, and its row
// and sentences here.
type kind struct {
	// look reports the conditions of the kind that are there now.
	look func(now time.Time, found func(condition))
	// isShared says that gateways which share a store see the same conditions.
	isShared bool
}

// kindsOf returns the table of kinds of a gateway.
func kindsOf(core *wing.Core, models *models, runs *runs) map[alerts.Kind]kind {
	refused := &signIns{refused: core.SignIns}
	spent := func(now time.Time, found func(condition)) { budgets(core, now, found) }
	return map[alerts.Kind]kind{
		alerts.Budget:  {look: spent, isShared: true},
		alerts.Breaker: {look: func(_ time.Time, found func(condition)) { breakers(core, found) }},
		alerts.Model:   {look: models.look},
		alerts.Run:     {look: runs.dear},
		alerts.Loop:    {look: runs.looping},
		alerts.SignIn:  {look: refused.look},
	}
}

// budgetWarning and budgetSpent are the parts of a budget, in percent, of which alerts tell.
const budgetWarning, budgetSpent = 80, 100

func budgets(core *wing.Core, now time.Time, found func(condition)) {
	for _, use := range core.Budgets() {
		percent := int64(float64(use.Used) / float64(use.Limit) * 100)
		c := condition{Level: warning, Since: now}
		switch {
		case use.Limit <= 0:
			continue
		case use.Used >= use.Limit:
			c.Level, percent = critical, budgetSpent
		case percent < budgetWarning:
			continue
		}
		values := []any{"account", strings.Replace(use.Account, "/", " ", 1), "unit", use.UnitName(),
			"window", strings.ToLower(use.WindowName())}
		c.Subject = use.Account + "/" + use.UnitName() + "/" + strings.ToLower(use.WindowName())
		c.Said = say.New("alert.budget", append(values, "percent", percent)...)
		c.Over = say.New("alert.budget_over", values...)
		found(c)
	}
}

func breakers(core *wing.Core, found func(condition)) {
	for _, instance := range core.Current.Load().Instances() {
		now := instance.Breaker.Snapshot()
		if now.State == breaker.Closed || now.Forced != breaker.Auto {
			continue // a person who holds it knows
		}
		service, label := instance.Service.String(), instance.Label()
		found(condition{
			Subject: service + "/" + label, Level: critical, Since: now.Since,
			Said: say.New("alert.breaker", "instance", label, "service", service),
			Over: say.New("alert.breaker_over", "instance", label, "service", service),
		})
	}
}

const (
	// lostFor is how long every call to a model must have been lost, and calmAfter how long
	// none may have been lost before that is over.
	lostFor, calmAfter = time.Minute, 15 * time.Minute
)

// models notices models of which every call is lost.
type models struct {
	mu    sync.Mutex
	lost  map[modelName]*losses
	watch bool // whether anybody wants to know
}

type modelName struct {
	service schema.ServiceType
	name    string
}

// losses are the calls of a model that were lost since the last one that was answered.
type losses struct {
	first, last time.Time
	number      int
}

// note takes notice of calls that have ended.
func (m *models) note(batch []calls.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.watch {
		return
	}
	for i := range batch {
		c := &batch[i]
		name := modelName{c.Service, c.Model}
		switch {
		case !c.Unified || c.Model == "" || c.Gone:
		case c.Result == schema.ResultSuccess:
			delete(m.lost, name)
		case !c.Result.Rejected():
			at := c.Started.Add(c.Ended)
			one := m.lost[name]
			if one == nil {
				one = &losses{first: at}
				m.lost[name] = one
			}
			one.last, one.number = at, one.number+1
		}
	}
}

// set says whether models are watched.
func (m *models) set(watch bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch = watch; !watch {
		clear(m.lost)
	}
}

func (m *models) look(now time.Time, found func(condition)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, one := range m.lost {
		if now.Sub(one.last) >= calmAfter {
			delete(m.lost, name)
			continue
		}
		span := one.last.Sub(one.first)
		if span < lostFor {
			continue
		}
		service := name.service.String()
		found(condition{
			Subject: service + "/" + name.name, Level: critical, Since: one.first,
			Said: say.New("alert.model", "model", name.name, "service", service, "minutes", int(span.Minutes()),
				"lost", one.number),
			Over: say.New("alert.model_over", "model", name.name, "service", service),
		})
	}
}
