package front

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// ahead notices that a client leaves where no poller does: on systems that have none, and
// where it fails. While a request is answered whose body was read, a goroutine reads the
// next byte of the connection.
type ahead struct {
	mu   sync.Mutex
	off  bool          // nothing is to be noticed: there is a poller, or no request
	done chan struct{} // is closed when the goroutine ends; nil without one
	next [1]byte       // begins the next request
	n    int           // how many bytes of next have come
}

// allow says whether begin has something to do.
func (a *ahead) allow(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = !on
}

// begin begins to read ahead.
func (a *ahead) begin(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.off || a.done != nil {
		return
	}
	c.reads.reset(time.Time{})
	done := make(chan struct{})
	a.done = done
	c.server.serving.Go(func() {
		defer close(done)
		var err error
		switch a.n, err = c.nc.Read(a.next[:]); {
		case a.n > 0, errors.Is(err, os.ErrDeadlineExceeded): // which end sets
		case errors.Is(err, io.EOF):
			c.halfClosed()
		default:
			c.gone.Store(true)
			c.endRequest()
		}
	})
}

// end ends what begin began. What has come is in the buffer of the connection then.
func (a *ahead) end(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
	if a.done == nil {
		return
	}
	c.reads.reset(time.Unix(1, 0))
	<-a.done
	c.reads.reset(time.Time{})
	if a.n > 0 {
		c.makeRoom()
		c.borrow()
		c.buf[c.w] = a.next[0]
		c.w++
	}
	a.done, a.n = nil, 0
}
