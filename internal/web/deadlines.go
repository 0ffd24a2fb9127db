package web

import (
	"net"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/front"
)

// deadlines bound how long a connection waits for its client while a request is being
// answered, by front.Allowance; between requests the server does that. They are set only
// for reads and writes of the network, so a body that arrived together with its head costs
// nothing.
type deadlines struct {
	mu              sync.Mutex
	since           time.Time // when the body was first waited for
	body            int64     // how many of its bytes have arrived since then
	readDeadlineSet bool      // whether boundBodyRead set the read deadline
	writeDeadline   time.Time // the deadline that boundWrite set, zero where another is in force
}

// boundBodyRead bounds the next read of a body.
func (d *deadlines) boundBodyRead(c interface{ SetReadDeadline(time.Time) error }) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		d.since = time.Now()
	}
	d.readDeadlineSet = true
	_ = c.SetReadDeadline(d.since.Add(front.Allowance(d.body))) // fails on a closed connection, as the read will
}

// received counts the bytes of a body that is waited for.
func (d *deadlines) received(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readDeadlineSet {
		d.body += int64(n)
	}
}

// clearReadDeadline clears the deadline that boundBodyRead set. The next read only
// notices that the client leaves, or reads its next request.
func (d *deadlines) clearReadDeadline(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readDeadlineSet {
		d.readDeadlineSet = false
		_ = c.SetReadDeadline(time.Time{})
	}
}

// replaceReadDeadline sets the read deadline of the caller. clearReadDeadline leaves it.
func (d *deadlines) replaceReadDeadline(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readDeadlineSet = false
	return c.SetReadDeadline(t)
}

// endRequest forgets the request that was answered.
func (d *deadlines) endRequest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.body, d.readDeadlineSet = time.Time{}, 0, false
}

// forgetWriteDeadline notes that the caller sets the write deadline.
func (d *deadlines) forgetWriteDeadline() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writeDeadline = time.Time{}
}

// boundWrite bounds a write of n bytes. Setting a deadline costs more than most writes,
// so a deadline is renewed only when it is more than a second too early.
func (d *deadlines) boundWrite(c net.Conn, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, allowed := time.Now(), front.Allowance(int64(n))
	if d.writeDeadline.Sub(now) < allowed-time.Second {
		d.writeDeadline = now.Add(allowed)
		_ = c.SetWriteDeadline(d.writeDeadline)
	}
}
