package proxy

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Noticer is a Sink that can tell its client to wait for the answer.
type Noticer interface {
	// Notice sends a comment before the answer begins, the first one after the head of a
	// stream of events. From then on the client has the status 200, Head must describe such a
	// stream, and an error with which Do ends is sent as an event.
	Notice(comment []byte) error
}

// waitingText is the comment that clients get while their model is loaded.
var waitingText = []byte(": waiting for the model to load\n\n")

// notices sends comments to a client while its request is held.
type notices struct {
	to    Noticer
	every time.Duration

	mu     sync.Mutex
	isOver bool
	timer  *time.Timer
}

// notify begins to send comments to the client after a time, if it waits for the first event
// of a stream. After a call of the returned function nothing is sent.
func (r *run) notify(after time.Duration) (end func()) {
	if after == 0 || r.client == nil || !r.Asks.Stream || r.Asks.Service != schema.Chat || r.resumed != nil ||
		r.Client != nil && r.Client.Frame != nil { // such streams have no comments
		return noNotices
	}
	to, can := r.client.(Noticer)
	if !can {
		return noNotices
	}
	n := &notices{to: to, every: r.proxy.silence}
	n.mu.Lock() // the timer may fire before it is set
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(after, n.tell)
	return n.stop
}

func noNotices() {}

func (n *notices) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isOver && n.to.Notice(waitingText) == nil {
		n.timer.Reset(n.every)
	}
}

// stop ends the notices: after it nothing is sent.
func (n *notices) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isOver = true
	n.timer.Stop()
}
