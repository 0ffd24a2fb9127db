package fleet

import "time"

// Told is the report of an engine about itself, read with its health checks. It is a
// hint: an engine may be wrong, may speak of another model, and is asked only now and
// then. A number that cannot be true counts as not told; so does one below zero.
type Told struct {
	// Waiting and Running are the requests that wait for their prefill and that run.
	Waiting, Running float64
	// Used is the share of the cache that is in use.
	Used float64
	// Capacity is how many tokens the cache holds for each of the models; 0 means that there
	// is no cache.
	Capacity float64
}

const (
	mostRequests = 1e5
	mostTokens   = 1e9
	// mostUnseen is how many seconds of work an engine can claim that no gateway knows of.
	mostUnseen = 10.0
	// tried is the number of seconds after which a host is tried, whatever it reports.
	tried = 15.0
	// mostTrust is how far engines are believed: all gateways hear the same, and would
	// all leave one engine and go to another.
	mostTrust = 0.5
	// bytesPerToken is a guess that calibration corrects.
	bytesPerToken = 4
)

// told is the part of an engine's report that is kept.
type told struct {
	unseen float64 // seconds of work that waits there and that no gateway sent, at that time
	at     float64
	Told
}

// untold is the report of an engine that has said nothing.
var untold = told{Told: Told{Waiting: -1, Running: -1, Used: -1, Capacity: -1}}

// sane returns a number, or -1 if it cannot be true. No comparison holds for NaN.
func sane(number, most float64) float64 {
	if number >= 0 && number <= most {
		return number
	}
	return -1
}

// Tell takes the report of the host's engine.
func (h *Host) Tell(said Told, now time.Time) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	h.told.Told = Told{sane(said.Waiting, mostRequests), sane(said.Running, mostRequests), sane(said.Used, 1),
		sane(said.Capacity, mostTokens)}
	h.told.at = h.fleet.clock(now)
	known, each := int32(0), 0.0
	for _, i := range h.instances {
		known += i.waiting + i.theirs
		each = max(each, i.typical*i.perToken)
		if h.told.Capacity >= 0 && !i.cache.isTold {
			i.cache.capacity, i.cache.isTold = max(h.told.Capacity*bytesPerToken, 1), true // 0 would never grow
		}
	}
	h.told.unseen = 0
	if h.told.at-h.asked < tried {
		h.told.unseen = min(max(h.told.Waiting-float64(known), 0)*each, mostUnseen)
	}
}

// work returns the seconds of work that the host has reported and no gateway has sent. It
// gets less while the host works on it.
func (t *told) work(now float64) float64 {
	if t.unseen == 0 {
		return 0
	}
	return max(t.unseen-max(now-t.at, 0), 0)
}

// judge compares the report of a host when a call was sent with the time that the call
// took, and then believes hosts more or less. It judges all of them alike: a gateway that
// doubted only the hosts that it has caught would send everything to these. The call
// shows nothing where the difference would have been small.
func (f *Fleet) judge(c *Call, seconds float64) {
	alone := c.Estimate.Expected - c.claimed*f.trust
	switch {
	case c.claimed < alone/2:
	case seconds > alone+c.claimed/2:
		f.trust = min(f.trust+mostTrust/8, mostTrust)
	default:
		f.trust *= 0.7
	}
}
