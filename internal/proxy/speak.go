package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
)

// describe makes the call that puts the request to an instance. False means that
// the instance's dialect has no words for it: it is passed over from then on.
func (r *Reply) describe(i *backend.Instance) bool {
	if r.described == i {
		return true
	}
	r.described = nil
	if err := i.Target.Speak.Call(r.req, i.Target, &r.call); err != nil {
		r.tried = append(r.tried, i)
		if r.mistake == nil {
			r.mistake = r.classify(err).err
		}
		return false
	}
	r.described = i
	return true
}

// refuseUnsayable turns a request away that can be put to none of the instances
// that would take it. It comes before the limits, because such a request reaches
// no backend and costs nothing, and leaves the call to the instance that is
// likely to be picked, so that it is made once.
func (r *Reply) refuseUnsayable(now time.Time) error {
	for i := r.likely(now); i != nil; i = r.likely(now) {
		if r.describe(i) {
			return nil
		}
	}
	// Those that are not ready decide whether there is something to wait for.
	for _, i := range r.pool.Instances {
		if isTried(r.tried, i) || !i.Settings.Enabled || i.Share == 0 {
			continue
		}
		if r.describe(i) && r.mistake == nil {
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
