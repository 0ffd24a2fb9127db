package front

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// watcher tells connections that their clients have left while no goroutine reads from
// them. One poller does that for all connections: a connection is added to it once, and
// costs nothing after that until its client ends it.
type watcher struct {
	file *os.File // the poller itself
	raw  syscall.RawConn

	mu    sync.Mutex
	conns map[uint64]*conn
	last  uint64
}

// Events of the poller that syscall does not have as numbers of the right type.
const (
	eventHalfClosed = syscall.EPOLLRDHUP
	eventReset      = syscall.EPOLLERR | syscall.EPOLLHUP
	eventEdge       = 1 << 31
)

func newWatcher() (*watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a poller: %w", err)
	}
	// The runtime's own poller watches this one, and no thread waits for it.
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("creating a poller: %w", err)
	}
	w := &watcher{file: os.NewFile(uintptr(fd), "clients"), conns: make(map[uint64]*conn)}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("creating a poller: %w", err)
	}
	return w, nil
}

// add watches a connection until it is closed or forgotten. It also reports events of the
// connection before the call.
func (w *watcher) add(c *conn) error {
	w.mu.Lock()
	w.last++
	c.id = w.last
	w.conns[c.id] = c
	w.mu.Unlock()
	event := syscall.EpollEvent{Events: eventHalfClosed | eventEdge, Fd: int32(c.id), Pad: int32(c.id >> 32)}
	return w.control(c, syscall.EPOLL_CTL_ADD, &event)
}

// forget forgets a connection that is closed or handed over. The kernel forgets a connection when
// it is closed, and run drops earlier events of it.
func (w *watcher) forget(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c.id)
}

// control changes the events that are polled for a connection.
func (w *watcher) control(c *conn, operation int, event *syscall.EpollEvent) error {
	var outer, inner, failure error
	outer = w.raw.Control(func(poller uintptr) {
		inner = c.raw.Control(func(socket uintptr) {
			failure = syscall.EpollCtl(int(poller), operation, int(socket), event)
		})
	})
	return cmp.Or(outer, inner, failure)
}

// run passes events on to their connections, until the watcher is closed or its poller fails, and
// returns why.
func (w *watcher) run() error {
	events := make([]syscall.EpollEvent, 64)
	for {
		var n int
		var failure error
		err := w.raw.Read(func(poller uintptr) bool {
			for {
				if n, failure = syscall.EpollWait(int(poller), events, 0); failure != syscall.EINTR {
					return n != 0 // also after a failure, which is -1
				}
			}
		})
		if err = cmp.Or(err, failure); err != nil {
			return fmt.Errorf("waiting for events of clients: %w", err)
		}
		for _, event := range events[:n] {
			w.tell(uint64(uint32(event.Fd))|uint64(uint32(event.Pad))<<32, event.Events)
		}
	}
}

// tell tells a connection about its events.
func (w *watcher) tell(id uint64, events uint32) {
	w.mu.Lock()
	c := w.conns[id]
	w.mu.Unlock()
	switch {
	case c == nil:
	case events&eventReset != 0: // the client has left for sure
		c.gone.Store(true) // before the request is looked for, which may begin just now
		c.endRequest()
	default:
		c.halfClosed()
	}
}

// close ends run.
func (w *watcher) close() { _ = w.file.Close() }
