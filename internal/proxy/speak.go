package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
)

// canExpress asks whether an instance's dialect has words for the request, as far
// as its fields tell. An instance whose dialect has none is passed over from then
// on.
func (r *Reply) canExpress(i *backend.Instance) bool {
	if r.asked == i {
		return true
	}
	if err := i.Target.Refuse(r.req); err != nil {
		r.passOver(i, err)
		return false
	}
	r.asked = i
	return true
}

// passOver notes that an instance cannot be given the request, and why.
func (r *Reply) passOver(i *backend.Instance, err error) {
	r.tried = append(r.tried, i)
	if r.mistake == nil {
		r.mistake = r.classify(err).err
	}
}

// giveBack gives up the instance that is held, whose dialect has no words for
// something deep in the request, or for which there is no memory. The one that
// failed before, if any did, is again the last that was called.
func (r *Reply) giveBack(failed *backend.Instance, err error) {
	i := r.Instance
	r.Instance, r.held = failed, false
	r.record.Forget()
	i.Return(r.permit, time.Now())
	r.pool.Queue.Wake()
	r.passOver(i, err)
}

// refuseInexpressible turns a request away that none of the instances that would
// take it can express. It comes before the limits, because such a request reaches
// no backend and costs nothing, and looks at nothing but fields.
func (r *Reply) refuseInexpressible(now time.Time) error {
	for i := r.likely(now); i != nil; i = r.likely(now) {
		if r.canExpress(i) {
			return nil
		}
	}
	// Those that are not ready decide whether there is something to wait for.
	for _, i := range r.pool.Instances {
		if isTried(r.tried, i) || !i.Settings.Enabled || i.Share == 0 {
			continue
		}
		if r.canExpress(i) && r.mistake == nil {
			return nil
		}
	}
	return r.refuseAtOnce(now)
}

// likely returns the instance that would be picked now; where only chance knows,
// one of those that may be.
func (r *Reply) likely(now time.Time) *backend.Instance {
	r.candidates = appendReady(r.candidates[:0], r.pool, r.tried, now)
	if len(r.candidates) == 0 {
		return nil
	}
	if next := r.pool.Balancer.Peek(r.candidates, r.caller.Addr); next != nil {
		return next
	}
	return r.candidates[0]
}

// nobody says why no instance takes the request. Where none is left but those
// without words for it, the request is what has to change.
func (r *Reply) nobody(now time.Time) error {
	if r.mistake != nil {
		switch r.obstacle(now) {
		case backend.Disabled, backend.NoWeight:
			return r.mistake
		}
	}
	return unavailable(r.pool, r.tried, now)
}
