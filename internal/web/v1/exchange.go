package v1

import (
	"context"
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
	"github.com/patchbay-ai/patchbay/internal/dialect"
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
	current  *routing.Current
	key      *access.Key // nil when the API is open
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

// letGo gives the request up. It must not be used after that.
func (x *exchange) letGo() {
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

// readJSON reads the body, whatever type it claims to have: curl sends forms by
// default. It answers itself, with false, when the body cannot be had.
func (x *exchange) readJSON(limit int64) bool {
	if x.compressed() {
		return false
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "multipart/") {
		x.fail(schema.NewError(schema.CodeUnsupportedMedia, "This endpoint takes a JSON body, not a form."))
		return false
	}
	if x.r.ContentLength > limit {
		x.tooLarge(limit)
		return false
	}
	err := x.readBody(limit)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errTooLarge):
		x.tooLarge(limit)
	case isOverloaded(err):
		x.refuseUnread(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.refuseBody("The request body did not arrive in time.", schema.CodeRequestTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		x.refuseBody("The request body ended too early.", schema.CodeInvalidBody)
	default:
		x.refuseBody("The request body could not be read.", schema.CodeInvalidBody)
	}
	return false
}

// compressed refuses, with true, a body that is compressed.
func (x *exchange) compressed() bool {
	encoding := x.r.Header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return false
	}
	x.fail(schema.NewError(schema.CodeUnsupportedMedia, "Compressed request bodies are not accepted; send the body as it is."))
	return true
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

// tooLarge refuses a body without reading the rest of it.
func (x *exchange) tooLarge(limit int64) {
	x.refuseBody("The request body is larger than the "+strconv.FormatInt(limit, 10)+" bytes that are allowed.", schema.CodeRequestTooLarge)
}

// refuseBody answers a request whose body was not read to its end; nothing
// sensible can follow it on the same connection.
func (x *exchange) refuseBody(message, code string) {
	x.refuseUnread(schema.NewError(code, message))
}

func (x *exchange) refuseUnread(err error) {
	x.w.Header().Set("Connection", "close")
	x.fail(err)
}

// fail answers with an error; a client that left gets nothing.
func (x *exchange) fail(err error) {
	var known *schema.Error
	if !errors.As(err, &known) {
		if x.r.Context().Err() != nil && !errors.Is(err, web.ErrStopping) {
			x.call.Gone, x.call.Code = true, schema.CodeCancelled
			panic(http.ErrAbortHandler) // a 200 without a body would be a lie
		}
		known = unexpected(err)
	}
	x.call.Code = known.Code
	if x.w.Header()["X-Ratelimit-Limit-Requests"] == nil {
		x.peekLimit()
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

// whole sends an answer that is there.
func (x *exchange) whole(reply *proxy.Reply) {
	reply.Settle()
	segments := reply.Segments()
	length := 0
	for _, s := range segments {
		length += len(s)
	}
	header := x.w.Header()
	header["Content-Type"] = contentJSON
	if contentType := reply.ContentType(); contentType != "" {
		header["Content-Type"] = []string{contentType}
	}
	header["Content-Length"] = []string{strconv.Itoa(length)}
	x.w.WriteHeader(http.StatusOK)
	for _, s := range segments {
		if _, err := x.w.Write(s); err != nil {
			reply.Abandon()
			return
		}
	}
}

// binary passes an answer on as it comes. One that breaks off is cut off here
// too: a connection that ends in the middle is the only way to say so.
func (x *exchange) binary(ctx context.Context, reply *proxy.Reply) {
	x.w.Header()["Content-Type"] = []string{reply.ContentType()}
	x.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(x.w)
	for {
		chunk, err := reply.Chunk(ctx)
		if errors.Is(err, io.EOF) {
			reply.Settle() // before the mark that ends the body
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err = x.w.Write(chunk); err == nil {
			err = control.Flush()
		}
		if err != nil {
			reply.Abandon()
			return
		}
	}
}

var (
	contentJSON   = []string{"application/json"}
	contentEvents = []string{"text/event-stream; charset=utf-8"}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// stream sends the events of an answer as they come. The head is written only
// now, when the first event is there.
func (x *exchange) stream(ctx context.Context, reply *proxy.Reply, keepAlive time.Duration) {
	if reply.Sent() {
		reply.ForgetCall()
		x.letGo() // thousands of streams must not hold on to their requests
	}
	header := x.w.Header()
	header["Content-Type"] = contentEvents
	if contentType := reply.ContentType(); contentType != "" {
		header["Content-Type"] = []string{contentType}
	}
	header["Cache-Control"] = noCache
	header["X-Accel-Buffering"] = noBuffering
	x.w.WriteHeader(http.StatusOK)
	out := newEventWriter(x.w, keepAlive)
	defer out.close()
	web.ProbeWith(x.w, out.probe)
	reply.BeforeWait(out.flush)
	framed := reply.Framed()
	for {
		event, err := reply.Next(ctx)
		if err == nil {
			if framed {
				err = out.frame(event)
			} else {
				err = out.event(event)
			}
			if err == nil {
				continue
			}
			reply.Abandon()
			return
		}
		x.endStream(ctx, reply, out, err)
		return
	}
}

// endStream ends a stream: with the mark that says the answer is complete, where
// the mark is ours to give, or with an error event and no mark.
func (x *exchange) endStream(ctx context.Context, reply *proxy.Reply, out *eventWriter, err error) {
	if errors.Is(err, io.EOF) {
		reply.Settle() // who reads the mark may rely on the count
		if !reply.Framed() {
			_ = out.event(dialect.DoneMark) // flushing tells
		}
		if out.lastFlush() != nil {
			reply.Abandon()
		}
		return
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		if ctx.Err() != nil && !errors.Is(err, web.ErrStopping) {
			reply.Abandon()
			return
		}
		known = unexpected(err)
	}
	x.call.Code = known.Code
	if out.event(web.ErrorBody(known)) != nil || out.lastFlush() != nil {
		reply.Abandon()
	}
}
