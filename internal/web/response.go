// Package web is what every HTTP surface of the gateway shares: the connection
// and its refusals, request ids, the caller's address, CORS, panics, the access
// log, and finding the handler of a path.
package web

import (
	"net/http"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/calls"
)

// Response is the client's side of one exchange. It notes in the record of the
// request what was written.
type Response struct {
	http.ResponseWriter
	call   *calls.Call
	change Change

	conn *Conn
	// leaving says that the connection ends with this answer; nil means never.
	leaving *atomic.Bool
}

// Change is what a management request did to the configuration, for the audit
// log: the versions before and after it, and a summary that holds no secrets.
type Change struct {
	Before, After int
	Summary       string
	DryRun        bool
}

// CallOf returns the record of the request that w answers. It is used again for
// another request once the handler has returned. A writer that no Shell made has a
// record of its own, which nobody reads.
func CallOf(w http.ResponseWriter) *calls.Call {
	if response, ok := w.(*Response); ok {
		return response.call
	}
	return new(calls.Call)
}

// ChangeOf returns where the handler of a management request says what it changed.
func ChangeOf(w http.ResponseWriter) *Change {
	if response, ok := w.(*Response); ok {
		return &response.change
	}
	return new(Change)
}

// WriteHeader remembers the status and passes it on.
func (w *Response) WriteHeader(status int) {
	if w.call.Status == 0 && status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin notes the status of an answer whose head is about to be written.
func (w *Response) begin(status int) {
	w.call.Status = status
	if w.leaving != nil && w.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
}

// Write passes bytes on.
func (w *Response) Write(p []byte) (int, error) {
	if w.call.Status == 0 {
		w.begin(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written so far.
func (w *Response) Flush() {
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Begun reports whether the answer is on its way.
func (w *Response) Begun() bool { return w.call.Status != 0 }
