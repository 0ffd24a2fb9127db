package web

import (
	"net"
	"sync"
	"time"
)

const (
	// A body must arrive, and a reply must be taken, within patienceTime plus a
	// second for every patienceRate bytes: slow links are fine, connections that
	// are held open by drops, or not at all, are not.
	patienceTime = 30 * time.Second
	patienceRate = 64 << 10
)

// patience is how long a connection waits for its client while a request is
// answered. Between requests the server sees to that. Only who waits for the
// network needs a deadline: a body that came with its head costs nothing.
type patience struct {
	mu     sync.Mutex
	since  time.Time // when the body was first waited for
	body   int64     // bytes of it that came since then
	bounds bool      // reads of the connection have a deadline of ours
	writes time.Time // the deadline of writes, zero where it is not ours
}

// forBody bounds the next read of a body.
func (p *patience) forBody(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.bounds = true
	_ = c.SetReadDeadline(p.since.Add(allowance(p.body))) // it fails on closed connections, as the read will
}

// got notes bytes that came; they count once a body is waited for.
func (p *patience) got(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bounds {
		p.body += int64(n)
	}
}

// forNews lets the next read take as long as it likes: it only notices that a
// client leaves, or begins its next request.
func (p *patience) forNews(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bounds {
		p.bounds = false
		_ = c.SetReadDeadline(time.Time{})
	}
}

// ended forgets the request that was answered.
func (p *patience) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.body, p.bounds = time.Time{}, 0, false
}

// writesChanged notes that somebody else set the deadline of writes.
func (p *patience) writesChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = time.Time{}
}

// forWrite bounds a write. Setting a deadline costs more than most writes, so
// it is renewed only when a second of it is gone.
func (p *patience) forWrite(c net.Conn, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, allowed := time.Now(), allowance(int64(n))
	if p.writes.Sub(now) < allowed-time.Second {
		p.writes = now.Add(allowed)
		_ = c.SetWriteDeadline(p.writes)
	}
}

func allowance(bytes int64) time.Duration {
	return patienceTime + time.Duration(bytes/patienceRate)*time.Second
}
