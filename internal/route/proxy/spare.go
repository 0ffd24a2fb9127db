package proxy

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// Serves reports whether a model or a fallback of it is served, and otherwise whether a
// backend that does not tell its models now may have it.
func (p *Proxy) Serves(service schema.ServiceType, model string) (serves, mayBeFound bool) {
	table := p.current.Load()
	if s := table.Service(service); s.Find(model) != nil || len(s.Takeovers(model)) > 0 {
		return true, false
	}
	return false, table.MayFind(service, model)
}

// SpareSlots returns how many requests of the class Spare for a model may run at a time now:
// the running ones, and one for each free slot. Where there is no slot to wait for, one more
// than the running ones is allowed: that request learns why, or goes on to another model.
func (p *Proxy) SpareSlots(service schema.ServiceType, model string) int {
	return new(spareLook).slots(p.current.Load().Service(service).Find(model))
}

// AwaitSpareSlot waits until SpareSlots is more than run, or the context ends; for a model
// that no instance serves, a second. It takes nothing: a slot may be gone when the request
// comes, and the request is refused then and waits here again. So it has nothing reserved
// meanwhile, and permissions are read when it is made.
func (p *Proxy) AwaitSpareSlot(ctx context.Context, service schema.ServiceType, model string, running func() int) {
	var look spareLook
	find := func() *routing.Pool { return p.current.Load().Service(service).Find(model) }
	hasFree := func() bool { return look.slots(find()) > running() }
	for !hasFree() {
		pool := find()
		if pool == nil {
			pause(ctx, unservedWait)
			return
		}
		standing := queue.Standing{Class: schema.Spare}
		if pool.Queue.Wait(ctx, spareCaller, &standing, queue.Settings{}, time.Time{}, hasFree) != nil {
			return
		}
		pool.Queue.Done(&standing, func() bool { return look.hasSlot(find()) }) // for one who takes it
	}
}

// unservedWait is the interval between looks at a model that no instance serves.
const unservedWait = time.Second

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// spareCaller is the caller of turns in AwaitSpareSlot. No key has the name.
const spareCaller = "\x00spare"

// spareLook looks for slots for requests of the class Spare.
type spareLook struct{ survey survey.Survey }

// slots returns how many such requests may run at a time; a nil pool is a model that nobody
// serves.
func (l *spareLook) slots(pool *routing.Pool) int {
	if pool == nil {
		return 1
	}
	now := time.Now()
	hasSlot := l.hasSlot(pool)
	slots := 0
	for _, i := range pool.Instances {
		slots += int(i.SpareInFlight())
	}
	switch {
	case hasSlot:
		for _, i := range l.survey.Ready {
			slots += i.SpareFree(now)
		}
	case !l.survey.Shortest.Busy():
		slots++
	}
	return slots
}

// hasSlot reports whether such a request would find a slot.
func (l *spareLook) hasSlot(pool *routing.Pool) bool {
	if pool == nil {
		return false
	}
	l.survey.AskAll(pool, &survey.Exclusions{Spare: true}, time.Now())
	return l.survey.Shortest == backend.NoObstacle
}
