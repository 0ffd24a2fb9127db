package ratelimit

import (
	"net/netip"
	"time"
)

// Spent holds the permits that one request took from a limit. The zero value belongs to
// a request that took nothing.
type Spent struct {
	limiter *Limiter     // nil where there is nothing to give back
	shard   *clientShard // counted the request
	key     netip.Addr   // of the client there
	at      int64        // when it was counted
	held    bool
	receipt Receipt // of a limit that is shared with other gateways
}

// Hold says that the request has to wait. Until Use or Return, its permits leave no
// room that fills up again: otherwise requests that are refused after a long wait would
// give back more than the limit holds.
func (s *Spent) Hold() {
	if s.receipt.lease != nil {
		s.receipt.Hold()
	} else if s.limiter != nil && !s.held {
		s.held = true
		s.shard.revise(s.key, s.at, s.at, (*bucket).hold)
	}
}

// Use says that the wait is over and that the request goes on.
func (s *Spent) Use(now time.Time) {
	s.receipt.Use()
	if s.held {
		s.held = false
		s.shard.revise(s.key, s.at, s.limiter.sinceStart(now), (*bucket).use)
	}
}

// Return gives back the permits, because the request is refused after all, and returns the
// state of the limit then. Only the first call counts; where nothing was taken it answers
// that nothing is limited. If other counts have replaced the counts that hold the request,
// giving back has no effect.
func (s *Spent) Return(now time.Time) Decision {
	l := s.limiter
	if l == nil {
		return Decision{}
	}
	if s.receipt.lease != nil {
		s.receipt.Return(now)
	} else {
		s.Use(now)
		s.shard.revise(s.key, s.at, l.sinceStart(now), (*bucket).giveBack)
	}
	s.limiter = nil
	return l.Peek(s.key, now)
}
