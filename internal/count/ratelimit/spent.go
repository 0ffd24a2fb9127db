package ratelimit

import (
	"net/netip"
	"time"
)

// Spent is what one request took from a limit. The zero value is that of a request that
// took nothing.
type Spent struct {
	limiter *Limiter     // nil where there is nothing to give back
	shard   *clientShard // in which the request was counted
	key     netip.Addr   // of the client there
	at      int64        // when it was counted
	held    bool
	receipt Receipt // of a limit that is shared with other gateways
}

// Hold says that the request has to wait. Until Use or Return, what it took leaves
// no room that fills up again: otherwise requests that are refused after a long
// wait would give back more than the limit holds.
func (s *Spent) Hold() {
	if s.receipt.lease != nil {
		s.receipt.Hold()
	} else if s.limiter != nil && !s.held {
		s.held = true
		s.shard.revise(s.key, s.at, s.at, (*spending).hold)
	}
}

// Use says that the wait is over and that the request goes on.
func (s *Spent) Use(now time.Time) {
	s.receipt.Use()
	if s.held {
		s.held = false
		s.shard.revise(s.key, s.at, s.limiter.sinceStart(now), (*spending).use)
	}
}

// Return gives back what was taken, because the request is refused after all, and
// tells where the limit stands then. Only the first call counts; what it answers
// where nothing was taken is not limited. If other counts have replaced those in which the
// request was counted, giving back has no effect.
func (s *Spent) Return(now time.Time) Decision {
	l := s.limiter
	if l == nil {
		return Decision{}
	}
	if s.receipt.lease != nil {
		s.receipt.Return(now)
	} else {
		s.Use(now)
		s.shard.revise(s.key, s.at, l.sinceStart(now), (*spending).giveBack)
	}
	s.limiter = nil
	return l.Peek(s.key, now)
}
