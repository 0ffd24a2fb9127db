package proxy

import (
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
)

// fallen is an instance with a backend that may have ended because of a call.
type fallen struct {
	at *backend.Instance
	by reply.Ending
}

const (
	// enderTime is how long a request is refused after it ended two backends, and mostEnders
	// how many such requests are known at a time.
	enderTime  = time.Minute
	mostEnders = 1024
	// enderRetry is the wait that its callers are told.
	enderRetry = 30 * time.Second
	// fallTime is how long a backend that breaks a connection may take to stop listening, and
	// fallLook the interval between tries meanwhile.
	fallTime = 100 * time.Millisecond
	fallLook = 20 * time.Millisecond
	// fallDial bounds one try.
	fallDial = 500 * time.Millisecond
)

// enders are the requests that are suspected of ending backends, by the digest of body and
// caller.
type enders struct {
	kept atomic.Int64 // how many there are: nothing else is looked at while it is 0
	mu   sync.Mutex
	list []ender // the one first that is forgotten first
}

// ender is such a request.
type ender struct {
	digest uint64
	until  time.Time
	// isCertain says that two backends ended. Otherwise fallen holds instances with
	// backends that may have ended. The next request of the digest finds out.
	isCertain bool
	fallen    [2]*backend.Instance
}

// find returns the entry of a digest.
func (e *enders) find(digest uint64, now time.Time) (known ender, found bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(func(k ender) bool { return !now.Before(k.until) })
	n := slices.IndexFunc(e.list, func(k ender) bool { return k.digest == digest })
	if n < 0 {
		return ender{}, false
	}
	return e.list[n], true
}

// keep keeps the entry of a digest from now on, for enderTime.
func (e *enders) keep(known ender, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(func(k ender) bool { return k.digest == known.digest || !now.Before(k.until) })
	known.until = now.Add(enderTime)
	e.list = append(slices.Delete(e.list, 0, max(0, len(e.list)+1-mostEnders)), known)
	e.kept.Store(int64(len(e.list)))
}

// drop forgets a digest.
func (e *enders) drop(digest uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(func(k ender) bool { return k.digest == digest })
}

// remove forgets the entries that over selects. It needs the mutex.
func (e *enders) remove(over func(ender) bool) {
	e.list = slices.DeleteFunc(e.list, over)
	e.kept.Store(int64(len(e.list)))
}

// enderDigest returns a digest that recognises a request if the same caller sends it again.
func (r *request) enderDigest() uint64 {
	type owned struct {
		digest uint64
		caller string
	}
	return maphash.Comparable(r.proxy.seed, owned{r.Asks.Digest(r.proxy.seed), r.Caller.Key()})
}

// refuseEnder returns an error if the request has ended two backends within the last minute.
// Where that is not certain, it tries to reach the backends.
func (r *run) refuseEnder(ctx context.Context) error {
	e, digest := &r.proxy.enders, r.enderDigest()
	known, found := e.find(digest, time.Now())
	switch {
	case !found:
		return nil
	case known.isCertain:
		return endsBackends()
	}
	for _, i := range known.fallen {
		if i != nil && r.isGone(ctx, i, 0) {
			r.fallen = append(r.fallen, fallen{i, reply.BrokeOff})
		}
	}
	switch len(r.fallen) {
	case 0:
		e.drop(digest)
	case len(known.fallen):
		e.keep(ender{digest: digest, isCertain: true}, time.Now())
		return endsBackends()
	}
	return nil
}

// noteFallen notes that a call may have ended its backend. If two backends broke the
// connection of the request and refuse connections after that, no other one gets it, and its
// caller is told so.
func (a *attempt) noteFallen(ctx context.Context, failed *reply.Fault) {
	if failed.Ending == reply.NoEnding || failed.Unsent || a.Asks.Door == schema.DoorRealtime {
		return // a link has no content that could end a backend
	}
	a.fall(fallen{a.instance, failed.Ending})
	gone := 0
	for n, f := range a.fallen {
		isLast := n == len(a.fallen)-1
		if f.by == reply.SaidDeath {
			gone++
			continue
		}
		if f.by != reply.BrokeOff || isLast && gone == 0 {
			continue
		}
		patience := time.Duration(0)
		if isLast {
			patience = fallTime
		}
		if a.isGone(ctx, f.at, patience) {
			gone++
		}
	}
	if gone < 2 {
		return
	}
	a.proxy.enders.keep(ender{digest: a.whole().enderDigest(), isCertain: true}, time.Now())
	failed.Err, failed.Failover, failed.TooLong = endsBackends(), false, false
}

// fall adds an instance to the ones with backends that may have ended, unless it is
// there.
func (r *request) fall(f fallen) {
	if !slices.ContainsFunc(r.fallen, func(other fallen) bool { return other.at.State == f.at.State }) {
		r.fallen = append(r.fallen, f)
	}
}

// keepFallen remembers a request that failed in the end and may have ended backends. Its
// next arrival shows whether it has.
func (r *request) keepFallen() {
	if len(r.fallen) == 0 {
		return
	}
	digest, now := r.enderDigest(), time.Now()
	if known, found := r.proxy.enders.find(digest, now); found && known.isCertain {
		return
	}
	known := ender{digest: digest}
	for n, f := range r.fallen[max(0, len(r.fallen)-len(known.fallen)):] {
		known.fallen[n] = f.at
	}
	r.proxy.enders.keep(known, now)
}

// clearFallen forgets a request that was suspected and is answered.
func (r *request) clearFallen() {
	if len(r.fallen) > 0 {
		r.proxy.enders.drop(r.enderDigest())
	}
}

// isGone reports whether an instance refuses connections, now or soon.
func (r *request) isGone(ctx context.Context, i *backend.Instance, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for ctx.Err() == nil {
		conn, err := r.proxy.client.Dial(ctx, &i.Origin, fallDial)
		if err == nil {
			_ = conn.Close()
		}
		now := time.Now()
		if transport.IsRefusal(err) {
			i.Health.Refused(now)
			return true
		}
		if !now.Before(deadline) {
			break
		}
		select {
		case <-time.After(fallLook):
		case <-ctx.Done():
		}
	}
	return false
}

// endsBackends returns the error for a request that seems to end every backend that gets it.
// Other requests under way at the same backends get the same error. So it does not blame the
// request, and does not hold for long.
func endsBackends() *schema.Error {
	known := reply.APIError(schema.CodeUpstreamError, say.New("call.enders"))
	known.Status = http.StatusServiceUnavailable
	known.RetryAfter, known.NoRetry = enderRetry, true
	known.Details = map[string]any{"reason": "the backends of two instances ended"}
	return known
}
