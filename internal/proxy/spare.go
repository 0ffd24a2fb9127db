package proxy

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/admit"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/queue"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// AwaitSpare waits until a request of the class Spare for a model would find a slot, or learn
// at once that there is none to wait for. It takes nothing, so that the slot may be gone when
// the request comes, which waits then. Those who wait have their turns in rotation by the name
// of their caller. The error is the cause with which the context ended, or a *schema.Error
// where no instance serves the model.
//
// Whoever waits here before the request is made has nothing reserved meanwhile, and sees who
// may ask for what when it is made.
func (p *Proxy) AwaitSpare(ctx context.Context, service schema.ServiceType, model, caller string) error {
	w := spareWait{proxy: p, service: service, model: model}
	if err := w.look(); err != nil || w.isDue() {
		return err
	}
	standing := queue.Standing{Class: schema.Spare}
	waiting := w.pool.Queue
	if err := waiting.Wait(ctx, caller, &standing, queue.Settings{}, time.Time{}, w.isDue); err != nil {
		return err
	}
	waiting.Done(&standing, func() bool { return false }) // the slot is for who had the turn
	return w.look()
}

// spareWait is the state of one who waits in AwaitSpare.
type spareWait struct {
	proxy   *Proxy
	service schema.ServiceType
	model   string
	pool    *routing.Pool
	survey  survey
}

// look finds the model in the table that is in force now.
func (w *spareWait) look() error {
	service := w.proxy.current.Load().Service(w.service)
	if w.pool = service.Find(w.model); w.pool == nil {
		return admit.UnknownModel(service, w.service, w.model)
	}
	return nil
}

// isDue reports whether there is a slot, or none to wait for.
func (w *spareWait) isDue() bool {
	if w.look() != nil {
		return true
	}
	w.survey.askAll(w.pool, &exclusions{spare: true}, time.Now())
	return w.survey.shortestObstacle != backend.NoSlot
}
