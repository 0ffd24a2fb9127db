package transport

import (
	"sync"
	"time"
)

// pool keeps idle connections, the most recently used on top: it is the least
// likely to have been closed by the backend, and the others can age and go.
type pool struct {
	max int           // per target
	ttl time.Duration // how long a connection may idle where the backend does not say

	mu     sync.Mutex
	stacks map[target]*stack
	closed bool
	// The reaper runs from the first connection kept until close. quit ends
	// it, gone tells that it has ended; both are nil before it runs.
	quit, gone chan struct{}
}

type stack struct{ conns []*conn }

// take returns an idle connection that is still usable, or nil. One that can be looked
// at while a request is written is not looked at before.
func (p *pool) take(to target, now time.Time) *conn {
	for {
		c := p.pop(to)
		if c == nil {
			return nil
		}
		if now.Before(c.idleUntil) && (c.canTurn() || c.isReusable()) {
			c.reused = true
			return c
		}
		c.abort()
	}
}

func (p *pool) pop(to target) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stacks[to]
	if s == nil || len(s.conns) == 0 {
		return nil
	}
	last := len(s.conns) - 1
	c := s.conns[last]
	s.conns[last] = nil
	s.conns = s.conns[:last]
	return c
}

// put keeps a connection that awaits nothing from now on, or closes it when there are
// enough. The stay is how long the backend said that it leaves the connection
// open, below zero where it said nothing.
func (p *pool) put(c *conn, stay time.Duration, now time.Time) {
	if stay < 0 {
		stay = p.ttl
	}
	c.idleUntil = now.Add(stay)
	if stay == 0 || !p.push(c) {
		c.abort()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	s := p.stacks[c.to]
	if s == nil {
		s = &stack{}
		p.stacks[c.to] = s
	}
	if len(s.conns) >= p.bound(c.to) {
		return false
	}
	s.conns = append(s.conns, c)
	if p.quit == nil {
		p.quit, p.gone = make(chan struct{}), make(chan struct{})
		go p.reap()
	}
	return true
}

// bound is how many idle connections are kept for a target.
func (p *pool) bound(to target) int {
	if own := to.via().MaxIdle; own != 0 {
		return min(p.max, max(own, 0))
	}
	return p.max
}

func (p *pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close closes every idle connection and waits for the reaper.
func (p *pool) close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	stacks, quit, gone := p.stacks, p.quit, p.gone
	p.stacks = nil
	if first && quit != nil {
		close(quit)
	}
	p.mu.Unlock()
	for _, s := range stacks {
		for _, c := range s.conns {
			c.abort()
		}
	}
	if gone != nil {
		<-gone
	}
}

// reap closes connections that idled for too long. A quarter of the time
// between looks keeps the overstay small; take checks the age anyway.
func (p *pool) reap() {
	defer close(p.gone)
	tick := time.NewTicker(max(p.ttl/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-tick.C:
			for _, c := range p.expired(now) {
				c.abort()
			}
		}
	}
}

// expired removes the connections whose time was over before now. What backends
// say may differ from one reply to the next, so all of them are looked at.
func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for to, s := range p.stacks {
		kept := s.conns[:0]
		for _, c := range s.conns {
			if c.idleUntil.Before(now) {
				out = append(out, c)
			} else {
				kept = append(kept, c)
			}
		}
		clear(s.conns[len(kept):])
		s.conns = kept
		if len(kept) == 0 {
			delete(p.stacks, to)
		}
	}
	return out
}
