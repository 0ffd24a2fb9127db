package v1

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/memory"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// exchange is the client's side of one request: its head, its body, the writer
// of the reply. Nothing else in this package knows the HTTP server.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	call     *calls.Call // the record of the request
	caller   schema.Caller
	table    *routing.Table // when the request came; the proxy reads its own
	key      *access.Key    // nil when the API is open
	request  schema.Request
	body     []byte
	input    *input
	inputs   *sync.Pool
	spool    spool
	memory   *memory.Watch
	reserved int64 // what the request has of the budget for bodies
}

// keepBuffer is the largest body buffer that is kept for the next request.
const keepBuffer = 1 << 20

// freeBody is the largest body of which nothing but its own length is taken from
// the budget: what is made of a small one is small.
const freeBody = 64 << 10

// input is the memory that reading and scanning a request takes. It is lent to
// an exchange for as long as the request is needed, which for a stream is much
// shorter than the exchange.
type input struct {
	body []byte
	scan jsonscan.Document
}

// take lends the exchange its input.
func (x *exchange) take(inputs *sync.Pool) {
	x.inputs = inputs
	x.input = inputs.Get().(*input)
	x.body, x.request.Body = x.input.body, x.input.scan
}

// TakeBack gives up the memory of the request, which nobody reads any more: neither
// this side nor the proxy, to which it was lent.
func (x *exchange) TakeBack() {
	x.spool.close()
	if x.input == nil {
		return
	}
	x.giveBackBeyond(0)
	x.request.Reset()
	x.input.body, x.input.scan = x.body[:0], x.request.Body
	if cap(x.body) > keepBuffer {
		x.input.body = nil
	}
	x.body, x.request = nil, schema.Request{}
	x.inputs.Put(x.input)
	x.input = nil
}

// readJSON reads and checks a body, whatever type it claims to have: curl sends
// forms by default.
func (x *exchange) readJSON(parse func(*schema.Request, []byte) error) error {
	if err := x.refuseCompressed(); err != nil {
		return err
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "multipart/") {
		return schema.NewError(schema.CodeUnsupportedMedia, "This endpoint takes a JSON body, not a form.")
	}
	limit := int64(x.table.Limits.JSONBody)
	if x.r.ContentLength > limit {
		return tooLarge(limit)
	}
	err := x.readBody(limit)
	switch {
	case err == nil:
		x.call.Ready = x.call.At(time.Now())
		if len(x.body) > freeBody {
			x.request.Body.Reserve = x.reserve
		}
		return parse(&x.request, x.body)
	case errors.Is(err, errTooLarge):
		return tooLarge(limit)
	case isOverloaded(err):
		return unread{err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return unreadable("The request body did not arrive in time.", schema.CodeRequestTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable("The request body ended too early.", schema.CodeInvalidBody)
	}
	return unreadable("The request body could not be read.", schema.CodeInvalidBody)
}

// refuseCompressed refuses a body that is compressed.
func (x *exchange) refuseCompressed() error {
	encoding := x.r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return nil
	}
	return schema.NewError(schema.CodeUnsupportedMedia, "Compressed request bodies are not accepted; send the body as it is.")
}

var errTooLarge = errors.New("the body is too large")

// readBody reads the body into memory that it takes from the budget: at once
// where the length is known, else as the body grows.
func (x *exchange) readBody(limit int64) error {
	expected := max(x.r.ContentLength, 0)
	x.body = slices.Grow(x.body[:0], int(min(expected, keepBuffer))+1)
	if err := x.reserve(max(int(expected)+1, cap(x.body))); err != nil {
		return err
	}
	for {
		if len(x.body) == cap(x.body) {
			room := len(x.body)
			if missing := int(expected) - len(x.body); missing > 0 {
				room = missing + 1
			} else if err := x.reserve(len(x.body) + room); err != nil { // the old memory is not free at once
				return err
			}
			x.body = append(make([]byte, 0, len(x.body)+room), x.body...)
		}
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		if int64(len(x.body)) > limit {
			return errTooLarge
		}
		if err == io.EOF {
			x.giveBackBeyond(cap(x.body))
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// giveBackBeyond gives back to the budget what is more than so many bytes.
func (x *exchange) giveBackBeyond(bytes int) {
	if more := x.reserved - int64(bytes); more > 0 {
		x.memory.Give(more)
		x.reserved -= more
	}
}

// reserve takes memory for the request from the budget, until the request is let
// go.
func (x *exchange) reserve(bytes int) error {
	if x.memory == nil {
		return nil
	}
	if x.memory.Take(int64(bytes)) {
		x.reserved += int64(bytes)
		return nil
	}
	known := overloaded("The gateway has no memory left for this request; try again shortly.")
	if budget := x.memory.Budget(); x.reserved+int64(bytes) > budget {
		known.Message = "The request takes more memory than the " + strconv.FormatInt(budget, 10) +
			" bytes that this gateway has for all requests together (half of limits.memory)."
		known.NoRetry = true
	}
	return known
}

func overloaded(message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeServiceUnavailable, Code: schema.CodeOverloaded, RetryAfter: time.Second}
}

// isOverloaded tells whether an error is that there is no memory.
func isOverloaded(err error) bool {
	var known *schema.Error
	return errors.As(err, &known) && known.Code == schema.CodeOverloaded
}

// unread is the error of a request whose body was not read to its end: nothing can
// follow it on the same connection.
type unread struct{ error }

// Unwrap returns the error itself.
func (u unread) Unwrap() error { return u.error }

func unreadable(message, code string) error { return unread{schema.NewError(code, message)} }

func tooLarge(limit int64) error {
	return unreadable("The request body is larger than the "+strconv.FormatInt(limit, 10)+" bytes that are allowed.", schema.CodeRequestTooLarge)
}

// fail answers with an error. A client that left gets nothing, and an answer that
// broke off ends with its connection.
func (x *exchange) fail(err error) {
	if errors.Is(err, proxy.ErrBrokenOff) {
		panic(http.ErrAbortHandler)
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		if x.r.Context().Err() != nil && !errors.Is(err, web.ErrStopping) {
			x.call.Gone, x.call.Code = true, schema.CodeCancelled
			panic(http.ErrAbortHandler) // a 200 without a body would be a lie
		}
		known = unexpected(err)
	}
	x.call.Code = known.Code
	if !x.call.Routed {
		x.showLimit(proxy.PeekLimit(x.table.Service(x.call.Service), x.request.Model, x.caller.Addr))
	}
	if errors.As(err, new(unread)) {
		x.w.Header().Set("Connection", "close")
	}
	WriteError(x.w, known)
}

// unexpected turns an error that no step named into one for the caller.
func unexpected(err error) *schema.Error {
	if errors.Is(err, web.ErrStopping) {
		return &schema.Error{
			Message:    "The gateway is shutting down.",
			Type:       schema.TypeServiceUnavailable,
			Code:       schema.CodeServiceUnavailable,
			RetryAfter: time.Second,
		}
	}
	return schema.NewError(schema.CodeInternal, "The gateway failed to handle the request.")
}
