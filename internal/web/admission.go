package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// askAgain is the time between two questions whether the caller of a request that runs
// may still have the reply.
const askAgain = time.Second

// errWithdrawn is the error of a reply that its caller may no longer have.
var errWithdrawn = errors.New("the caller may no longer have this reply")

// admission is who sent a request of the management API, and whether the gate would
// still admit it: a token may be revoked, and a session may end, while the reply is
// written.
type admission struct {
	who    access.Identity
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu      sync.Mutex
	refusal func(http.ResponseWriter) // nil while the request may go on
	ended   bool
	cut     bool // something of the reply was not written
}

// admitted returns a request with who sent it.
func admitted(r *http.Request, who access.Identity) (*http.Request, *admission) {
	ctx, cancel := context.WithCancelCause(r.Context())
	a := &admission{who: who, cancel: cancel}
	return r.WithContext(context.WithValue(ctx, identityKey{}, a)), a
}

// follow calls ask every second. When that returns a refusal, the context of the request
// ends, and nothing more is written to its reply.
func (a *admission) follow(w http.ResponseWriter, ask func() func(http.ResponseWriter)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(askAgain, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ended { // the memory of the request may be used for another one by now
			return
		}
		if a.refusal = ask(); a.refusal != nil {
			a.cancel(errWithdrawn)
			return
		}
		a.timer.Reset(askAgain)
	})
	if response, ok := w.(*Response); ok {
		response.admission = a
	}
}

// end ends what follow has begun. It runs after a panic of the handler, too.
func (a *admission) end(w http.ResponseWriter) {
	if response, ok := w.(*Response); ok {
		response.admission = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.cancel(nil)
}

// isWithdrawn reports whether the caller may no longer have the reply.
func (a *admission) isWithdrawn() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusal != nil
}

// refuseWrite returns an error if the rest of the reply must not be written.
func (a *admission) refuseWrite() error {
	if !a.isWithdrawn() {
		return nil
	}
	a.cut = true // only the goroutine of the handler reads and writes it
	return errWithdrawn
}

// finish ends the reply of a handler that has returned. A caller who was refused meanwhile
// is told so. If the reply has begun, its connection is broken off, so that it does not
// look complete; only events may end anywhere.
func (a *admission) finish(w http.ResponseWriter) {
	response, ok := w.(*Response)
	if !ok || !a.isWithdrawn() {
		return
	}
	response.admission = nil
	header := w.Header()
	switch {
	case !response.Begun():
		for _, name := range [...]string{"Content-Length", "Content-Encoding", "Content-Disposition", "Etag"} {
			header.Del(name) // of the reply that was not written
		}
		a.refusal(w)
	case a.cut && !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream"):
		panic(http.ErrAbortHandler)
	}
}
