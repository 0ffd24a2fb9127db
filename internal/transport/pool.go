package transport

import (
	"sync"
	"time"
)

// pool keeps idle connections, the most recently used on top: it is the least
// likely to have been closed by the backend, and the others can age and go.
type pool struct {
	max int           // per target
	ttl time.Duration // how long a connection may idle

	mu     sync.Mutex
	stacks map[target]*stack
	closed bool
	// The reaper runs from the first connection kept until close. quit ends
	// it, gone tells that it has ended; both are nil before it runs.
	quit, gone chan struct{}
}

type stack struct{ conns []*conn }

// take returns an idle connection that is still usable, or nil.
func (p *pool) take(to target) *conn {
	for {
		c := p.pop(to)
		if c == nil {
			return nil
		}
		if time.Since(c.idleSince) < p.ttl && c.quiet() {
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

// put keeps a connection that awaits nothing, or closes it when there are
// enough.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	if !p.push(c) {
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
	if len(s.conns) >= p.max {
		return false
	}
	s.conns = append(s.conns, c)
	if p.quit == nil {
		p.quit, p.gone = make(chan struct{}), make(chan struct{})
		go p.reap()
	}
	return true
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
			for _, c := range p.expired(now.Add(-p.ttl)) {
				c.abort()
			}
		}
	}
}

// expired removes the connections idle since before the given time. They lie
// at the bottom of the stacks.
func (p *pool) expired(before time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for to, s := range p.stacks {
		n := 0
		for n < len(s.conns) && s.conns[n].idleSince.Before(before) {
			n++
		}
		out = append(out, s.conns[:n]...)
		kept := copy(s.conns, s.conns[n:])
		clear(s.conns[kept:])
		s.conns = s.conns[:kept]
		if kept == 0 {
			delete(p.stacks, to)
		}
	}
	return out
}
