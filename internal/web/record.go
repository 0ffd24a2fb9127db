// Package web is what every HTTP surface of the gateway shares: the connection
// and its refusals, request ids, the caller's address, CORS, panics, the access
// log, and finding the handler of a path.
package web

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Record is what is known about one request when it ended; it becomes a line of
// the access log. Handlers fill in what they learn.
type Record struct {
	RequestID string
	Started   time.Time
	Status    int
	Bytes     int64

	Service   string
	Model     string
	Instance  string
	Attempts  int
	FirstByte time.Duration
	Usage     schema.Usage
	ErrorCode string
	// Cause is why the last attempt that failed did not reach its backend.
	Cause string
	// Gone says that the client left before it had its answer.
	Gone bool

	// What a change of the configuration did, for the audit log: the versions
	// before and after it, and what changed in words that hold no secrets.
	Before, After int
	Change        string
	DryRun        bool
}

// Response is the client's side of one exchange. It remembers what was written
// for the record.
type Response struct {
	http.ResponseWriter
	Record Record

	conn *Conn
	// leaving says that the connection ends with this answer; nil means never.
	leaving *atomic.Bool
}

// RecordOf returns the record of the request that w answers. A writer that no
// Shell made has a record of its own, which nobody reads.
func RecordOf(w http.ResponseWriter) *Record {
	if response, ok := w.(*Response); ok {
		return &response.Record
	}
	return new(Record)
}

// WriteHeader remembers the status and passes it on.
func (w *Response) WriteHeader(status int) {
	if w.Record.Status == 0 && status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin notes the status of an answer whose head is about to be written.
func (w *Response) begin(status int) {
	w.Record.Status = status
	if w.leaving != nil && w.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
}

// Write counts the bytes and passes them on.
func (w *Response) Write(p []byte) (int, error) {
	if w.Record.Status == 0 {
		w.begin(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.Record.Bytes += int64(n)
	return n, err
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
func (w *Response) Begun() bool { return w.Record.Status != 0 }
