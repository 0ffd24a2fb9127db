// Package web is the part that all HTTP surfaces of the gateway share: request ids, the
// client's address, CORS, panics, the access log, routing to handlers, and access to the
// management API. A request passes Shell, Router, Gate and then its handler.
package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Response is the http.ResponseWriter of one request. It notes the status in the record
// of the request.
type Response struct {
	http.ResponseWriter
	call   calls.Record
	id     [1]string // the value of its header X-Request-Id
	change *Change   // nil until somebody asks for it
	// wantsCodes says that the caller asked for the sentences of an error as codes.
	wantsCodes bool

	stream *stream // nil unless it is HTTP/2
	// admission says whether the caller may still have the reply; nil means yes.
	admission *admission
	// closing says that the connection is closed after this reply; nil means never.
	closing *atomic.Bool
	// recording records the operation before its reply leaves; nil if nothing is recorded.
	recording *recording
}

// Change is the effect of a management request on the configuration, for the audit log: the
// versions before and after it, and a summary that holds no secrets.
type Change struct {
	Before, After int
	Summary       string
	DryRun        bool
	// Who is the person that a sign-in has made known, and Reply the value that the operation
	// returned.
	Who   access.Identity
	Reply any
}

// RecordOf returns the record of the request that w answers. For a writer that no Shell
// made it returns a new record, which no one reads.
func RecordOf(w http.ResponseWriter) *calls.Record {
	if response, ok := w.(*Response); ok {
		return &response.call
	}
	return new(calls.Record)
}

// ChangeOf returns the Change that the handler of a management request fills in.
func ChangeOf(w http.ResponseWriter) *Change {
	response, ok := w.(*Response)
	if !ok {
		return new(Change)
	}
	if response.change == nil {
		response.change = new(Change)
	}
	return response.change
}

// CodesHeader is the header that asks for the sentences of an error as codes. Without it
// the bodies of errors have only the members that the API promises.
const CodesHeader = "X-Patchbay-Said"

// SaidTo returns the sentences of an error if the caller asked for them, else nil.
func SaidTo(w http.ResponseWriter, said ...say.Sentence) []say.Sentence {
	if response, ok := w.(*Response); ok && response.wantsCodes {
		return say.All(said...)
	}
	return nil
}

// WriteHeader notes the status and writes the head of the reply.
func (w *Response) WriteHeader(status int) {
	if w.admission.isWithdrawn() {
		return
	}
	if w.call.Status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin notes the status of a reply before its head is written.
func (w *Response) begin(status int) {
	w.call.Status = status
	w.recording.end(status)
	if w.stream != nil {
		// Handlers that leave a body unread ask for the connection to be closed. In
		// HTTP/2 the rest of the body belongs to this stream alone, and closing would
		// take the connection away from the other requests on it.
		w.Header().Del("Connection")
	}
	if w.closing != nil && w.closing.Load() && status != http.StatusSwitchingProtocols {
		w.Header().Set("Connection", "close")
	}
}

// Write writes a part of the body.
func (w *Response) Write(p []byte) (int, error) {
	if err := w.admission.refuseWrite(); err != nil {
		return 0, err
	}
	if w.call.Status == 0 {
		w.begin(http.StatusOK)
	}
	if captured := w.call.Captured; captured != nil {
		captured.AddAnswer(w.Header().Get("Content-Type"), p)
	}
	if w.stream != nil {
		defer w.stream.boundWrite(len(p))()
	}
	return w.ResponseWriter.Write(p)
}

// Flush sends everything written so far.
func (w *Response) Flush() { _ = w.FlushError() }

// FlushError is Flush, and reports whether the client could be reached.
func (w *Response) FlushError() error {
	if err := w.admission.refuseWrite(); err != nil {
		return err
	}
	if w.call.Status == 0 {
		w.begin(http.StatusOK)
	}
	if w.stream != nil {
		defer w.stream.boundWrite(0)()
	}
	switch flusher := w.ResponseWriter.(type) {
	case interface{ FlushError() error }:
		return flusher.FlushError()
	case http.Flusher:
		flusher.Flush()
	}
	return nil
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Sender is a writer of a reply that adds to the body and flushes in one call.
type Sender interface {
	Send(p []byte) error
}

// SenderOf returns the Sender below a reply after its head was written. It returns nil if
// there is none, or if the reply is captured.
func SenderOf(w http.ResponseWriter) Sender {
	if response, ok := w.(*Response); ok && response.stream == nil && response.call.Captured == nil {
		sender, _ := response.ResponseWriter.(Sender)
		return sender
	}
	return nil
}

// AnnounceLength announces the length of the body of a reply before its head is written.
func AnnounceLength(w http.ResponseWriter, length int) {
	if response, ok := w.(*Response); ok {
		if announcer, ok := response.ResponseWriter.(interface{ AnnounceLength(length int64) }); ok {
			announcer.AnnounceLength(int64(length)) // without a text and a header
			return
		}
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(length)}
}

// Begun reports whether the head of the reply was written.
func (w *Response) Begun() bool { return w.call.Status != 0 }

// ProbeWith sets the function that sends the client something harmless after the head of
// the reply was sent; nil means that the body has no room for that. A client may close its
// sending side after its request and wait for the reply. It then looks like a client that
// has left until the gateway sends something to it.
func ProbeWith(w http.ResponseWriter, probe func()) {
	if response, ok := w.(*Response); ok {
		if to, ok := response.ResponseWriter.(interface{ ProbeWith(probe func()) }); ok {
			to.ProbeWith(probe)
		}
	}
}

// askAgain is the time between two questions whether the caller of a request that runs
// may still have the reply.
const askAgain = time.Second

// errWithdrawn is the error of a reply that its caller may no longer have.
var errWithdrawn = errors.New("the caller may no longer have this reply")

// admission knows the sender of a request of the management API, and whether the gate would
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

// end stops the watching that follow has begun. It runs after a panic of the handler, too.
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

// finish ends the reply of a handler that has returned. It tells a caller who was refused
// meanwhile. If the reply has begun, it breaks off the connection, because the reply must
// not look complete; only events may end anywhere.
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
