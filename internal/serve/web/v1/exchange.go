package v1

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// exchange is the client's side of one request: its head, its body, the writer
// of the reply. Nothing else in this package knows the HTTP server.
type exchange struct {
	w       http.ResponseWriter
	sender  web.Sender // w, once its head is written, if it has a shorter way
	r       *http.Request
	call    *calls.Record // the record of the request
	door    *door
	caller  access.Caller
	table   *routing.Table // in force when the head came, and then when the body had come
	request schema.Request
	way     account.Account // the request on its way through the proxy
	body    []byte
	input   *input
	inputs  *sync.Pool
	spool   spool
	buffers *buffers
	log     *slog.Logger
	memory  memory.Lease // the request's part of the memory for bodies
	// passed is the answer that a backend keeps, once it is known.
	passed passedAnswer
	// account decides which ids of a backend's account the caller may name.
	account ownAccount
	// isNoticed says that the client has the head of a stream, and nothing of an answer yet.
	isNoticed bool
	// isLine reports whether the request is a line of a batch, and isUncounted whether it is one
	// that had no room among the running requests.
	isLine, isUncounted bool
	// running shows the request to people while it runs.
	running calls.Running
	// told is the error that answered the request, nil if there was none.
	told *schema.Error
	// before precedes the input of a conversation when its tokens are counted.
	before [][]byte
}

// input is the memory that reading and scanning a request needs. An exchange has it only
// for as long as the request is read, which for a stream is much shorter than the
// exchange.
type input struct {
	body []byte // no larger than smallBuffer
	scan jsonscan.Document
}

// take gives the exchange an input from the pool.
func (x *exchange) take(inputs *sync.Pool) {
	x.inputs = inputs
	x.input = inputs.Get().(*input)
	x.body, x.request.Body = x.input.body, x.input.scan
}

// TakeBack puts the memory of the request back into the pool. Neither this package nor the
// proxy, which borrowed it, reads it any more.
func (x *exchange) TakeBack() {
	x.spool.close()
	if x.input == nil {
		return
	}
	x.memory.Close()
	x.request.Reset()
	x.input.scan = x.request.Body
	x.buffers.put(x.body)
	x.body, x.request = nil, schema.Request{}
	x.inputs.Put(x.input)
	x.input = nil
}

// readJSON reads and parses a JSON body. It does not insist on the content type of JSON,
// because curl sends the content type of a form by default.
func (x *exchange) readJSON(parse func(*schema.Request, []byte) error) error {
	if err := x.refuseCompressed(); err != nil {
		return err
	}
	if strings.HasPrefix(web.FirstOf(x.r.Header, "Content-Type"), "multipart/") {
		return schema.CodedError(schema.CodeUnsupportedMedia, "call.json_not_form")
	}
	limit := int64(x.table.Limits.JSONBody)
	if x.r.ContentLength > limit {
		return tooLarge(limit)
	}
	err := x.readBody(limit)
	if captured := x.call.Captured; captured != nil {
		captured.AddRequest(proxy.TypeJSON, x.body)
	}
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
		return unreadable(say.New("call.body_late"), schema.CodeRequestTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return unreadable(say.New("call.body_short"), schema.CodeInvalidBody)
	}
	return unreadable(say.New("call.body_unread"), schema.CodeInvalidBody)
}

// refuseCompressed refuses a body that is compressed.
func (x *exchange) refuseCompressed() error {
	encoding := web.FirstOf(x.r.Header, "Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return nil
	}
	return schema.CodedError(schema.CodeUnsupportedMedia, "call.compressed")
}

// unread is an error after which the connection must be closed, because the body of the
// request was not read to its end.
type unread struct{ error }

// Unwrap returns the error itself.
func (u unread) Unwrap() error { return u.error }

func unreadable(said say.Sentence, code string) error { return unread{schema.NewError(code, said)} }

func tooLarge(limit int64) error {
	return unreadable(say.New("call.body_large", "size", limit),
		schema.CodeRequestTooLarge)
}

// fail answers with an error. Where the client has left, or an answer broke off, it
// aborts the connection.
func (x *exchange) fail(err error) {
	if errors.Is(err, proxy.ErrBrokenOff) {
		panic(http.ErrAbortHandler)
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		if x.r.Context().Err() != nil && !errors.Is(err, web.ErrStopping) {
			x.call.Gone, x.call.Code = true, schema.CodeCancelled
			panic(http.ErrAbortHandler) // else the server would send an empty 200
		}
		known = unexpected(err)
	}
	if known.UnknownModel != "" && x.door.notFound != nil {
		known = x.door.notFound(shorten(known.UnknownModel))
	}
	x.told = known
	x.call.Tell(known)
	if x.isNoticed {
		if x.Send(x.door.failureEvent(known, x.caller.RequestID)) != nil {
			panic(http.ErrAbortHandler) // the client has left
		}
		return
	}
	if !x.call.Routed {
		limit := account.PeekLimit(x.table.Service(x.call.Service), x.request.Model, x.caller.Addr)
		showLimits(x.w.Header(), limit, ratelimit.Decision{}, ratelimit.Decision{})
	}
	if errors.As(err, new(unread)) {
		x.w.Header().Set("Connection", "close")
	}
	writeError(x.w, known, x.door.errors)
}

// unexpected returns the caller's error for an error that is no *schema.Error.
func unexpected(err error) *schema.Error {
	if errors.Is(err, web.ErrStopping) {
		return proxy.Stopping()
	}
	return schema.CodedError(schema.CodeInternal, "call.failed")
}

// The exchange is the sink of the proxy's answer.
var _ proxy.Noticer = (*exchange)(nil)

var (
	contentJSON   = []string{proxy.TypeJSON}
	contentEvents = []string{proxy.TypeEvents}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// Route tells the client, and the record, where the request went.
func (x *exchange) Route(route proxy.Route) {
	header := x.w.Header()
	if route.Asked != "" {
		x.call.Asked = shorten(route.Asked)
	}
	if route.Instance != nil {
		x.passed.stick(route.Instance.ID)
	}
	TellServed(header, &route)
	if route.Cache != metrics.CacheOff {
		header["X-Router-Cache"] = []string{route.Cache.String()}
	}
	TellWait(header, route.Held)
	if route.Queue.Position > 0 {
		header["X-Router-Queue"] = []string{queueText(route.Queue)}
	}
	showLimits(header, route.Limit, route.KeyRequests, route.KeyTokens)
}

// TellServed writes into the header of a reply which model and instances served it, and how many
// instances were called.
func TellServed(header http.Header, route *proxy.Route) {
	if route.Asked != "" && route.Model != "" {
		header["X-Router-Model"] = []string{headerText(route.Model)}
	}
	if route.Instance != nil {
		header["X-Router-Instance"] = route.Instance.HandleHeader
	}
	if len(route.Answerers) > 1 {
		header["X-Router-Instance"] = []string{handlesOf(route.Answerers)}
	}
	header["X-Router-Attempts"] = attemptsText(route.Attempts)
}

// TellWait writes into the header of a reply how long the client has waited for its model
// to be loaded, if it has.
func TellWait(header http.Header, held time.Duration) {
	if held > 0 {
		header["X-Router-Wait-Ms"] = []string{strconv.FormatInt(max(held.Milliseconds(), 1), 10)}
	}
}

// queueText returns the value of X-Router-Queue, an item of a structured field: the class,
// the position, and the expected wait in seconds, if it is known.
func queueText(o queue.Outlook) string {
	text := o.Class.String() + ";position=" + strconv.Itoa(o.Position)
	if o.Wait > 0 {
		text += ";wait=" + strconv.FormatFloat(max(o.Wait.Seconds(), 0.1), 'f', 1, 64)
	}
	return text
}

// handlesOf names several instances.
func handlesOf(instances []*backend.Instance) string {
	var all strings.Builder
	for n, i := range instances {
		if n > 0 {
			all.WriteString(", ")
		}
		all.WriteString(i.Handle)
	}
	return all.String()
}

// attemptsText returns the value of X-Router-Attempts. Small numbers take no memory.
func attemptsText(n int) []string {
	if n < len(smallNumbers) {
		return smallNumbers[n : n+1 : n+1]
	}
	return []string{strconv.Itoa(n)}
}

// smallNumbers covers the attempts that a request can make.
var smallNumbers = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}

// headerText returns a name in a form that a header can carry: it escapes characters beyond
// ASCII as in a URL.
func headerText(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return url.PathEscape(name)
		}
	}
	return name
}

// Notice tells the client of a stream that the gateway waits for the answer.
func (x *exchange) Notice(comment []byte) error {
	if !x.isNoticed {
		x.Head(proxy.Head{Form: account.Form{ContentType: proxy.TypeEvents, Length: -1, Events: true}})
		x.isNoticed, x.call.Streamed = true, true
	}
	return x.Send(comment)
}

// Head begins a successful answer.
func (x *exchange) Head(head proxy.Head) {
	if x.isNoticed {
		if !head.Events {
			panic(http.ErrAbortHandler) // the client reads events, and can be told nothing else
		}
		if head.Probe != nil {
			web.ProbeWith(x.w, head.Probe)
		}
		return
	}
	header := x.w.Header()
	switch head.ContentType {
	case proxy.TypeJSON:
		header["Content-Type"] = contentJSON
	case proxy.TypeEvents:
		header["Content-Type"] = contentEvents
	default:
		header["Content-Type"] = []string{head.ContentType}
	}
	if head.Length >= 0 {
		web.AnnounceLength(x.w, head.Length)
	}
	if head.Events {
		header["Cache-Control"], header["X-Accel-Buffering"] = noCache, noBuffering
	}
	if asksForTiming(x.r) {
		header["X-Router-Overhead-Ms"] = []string{overheadText(x.call.SoFar(time.Now()))}
	}
	x.w.WriteHeader(http.StatusOK)
	x.sender = web.SenderOf(x.w)
	if head.Probe != nil {
		web.ProbeWith(x.w, head.Probe)
	}
}

// asksForTiming reports whether the client wants to know how long the gateway itself took.
// Others do not pay for it: reading the clock, making a text and writing a further header
// are a measurable part of the gateway's work for a request.
func asksForTiming(r *http.Request) bool { return web.FirstOf(r.Header, "X-Router-Timing") != "" }

// overheadText returns a length of time in milliseconds with microseconds behind the point.
func overheadText(d time.Duration) string {
	return strconv.FormatFloat(float64(max(d, 0))/float64(time.Millisecond), 'f', 3, 64)
}

// Write adds to the body of the answer.
func (x *exchange) Write(p []byte) (int, error) { return x.w.Write(p) }

// Send adds to the body of the answer and sends everything written so far.
func (x *exchange) Send(p []byte) error {
	if x.sender != nil {
		return x.sender.Send(p)
	}
	if _, err := x.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(x.w).Flush()
}

// A body is read into a buffer that grows with the bytes that have arrived. A length that a
// client announces, and does not send, therefore takes no memory. The buffers of all three
// sizes are used again; larger ones are not kept.
const (
	smallBuffer  = 16 << 10
	mediumBuffer = 128 << 10
	largeBuffer  = 1 << 20
	// mediumFrom is the number of bytes that have to arrive before there is more than a
	// small buffer. They come with the head of most requests; of most bodies, nothing else
	// is copied.
	mediumFrom = 2 << 10
	// growth is the greatest size of the next buffer, in multiples of the bytes that have
	// arrived, if the client has announced so many.
	growth = 8
)

// freeBody is the largest body that takes only its length from the memory for bodies:
// parsing a small body needs little memory.
const freeBody = 64 << 10

// buffers keeps buffers for the bodies of later requests. The type input keeps small ones,
// together with the other memory for reading a request.
type buffers struct {
	medium, large sync.Pool
	// moving is held while a body moves to a buffer that is larger than large ones. Only
	// one request at a time then needs memory for two.
	moving sync.Mutex
}

// bufferSize returns the capacity of the buffer that get returns for a size.
func bufferSize(size int) int {
	switch {
	case size > smallBuffer && size <= mediumBuffer:
		return mediumBuffer
	case size > mediumBuffer && size <= largeBuffer:
		return largeBuffer
	}
	return size
}

// get returns an empty buffer of at least this size.
func (b *buffers) get(size int) []byte {
	size = bufferSize(size)
	switch size {
	case mediumBuffer:
		if kept, ok := b.medium.Get().(*[mediumBuffer]byte); ok {
			return kept[:0]
		}
	case largeBuffer:
		if kept, ok := b.large.Get().(*[largeBuffer]byte); ok {
			return kept[:0]
		}
	}
	return make([]byte, 0, size)
}

// put keeps a buffer that is no longer used, if it has a size that get returns.
func (b *buffers) put(buffer []byte) {
	switch cap(buffer) {
	case mediumBuffer:
		b.medium.Put((*[mediumBuffer]byte)(buffer[:mediumBuffer]))
	case largeBuffer:
		b.large.Put((*[largeBuffer]byte)(buffer[:largeBuffer]))
	}
}

// nextBuffer returns the size of the buffer for a body, from the number of bytes that have
// arrived and the length that the client has announced, or -1.
func nextBuffer(arrived, announced int) int {
	const first = 4 << 10
	if announced < arrived {
		return max(2*arrived, first)
	}
	most := smallBuffer
	if arrived >= mediumFrom {
		most = max(mediumBuffer, growth*arrived)
	}
	return min(announced+1, most) // with room left, the end is read without another buffer
}

var errTooLarge = errors.New("the body is too large")

// readBody reads the body. It refuses a body at once if its announced length exceeds the
// rest of the memory for bodies, but takes memory only for the bytes that arrive.
func (x *exchange) readBody(limit int64) error {
	announced := int(x.r.ContentLength)
	if announced > smallBuffer {
		if verdict := x.memory.May(int64(announced)); verdict != memory.Granted {
			return x.noMemory(verdict, int64(announced))
		}
	}
	if first := nextBuffer(0, announced); cap(x.body) < first {
		x.setBody(x.buffers.get(first))
	}
	if err := x.reserve(cap(x.body)); err != nil {
		return err
	}
	for {
		if len(x.body) == cap(x.body) || cap(x.body) <= min(smallBuffer, announced) {
			if err := x.growBody(announced); err != nil {
				return err
			}
		}
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		if int64(len(x.body)) > limit {
			return errTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// growBody moves the body to a larger buffer, if the bytes that have arrived justify one.
// While it copies, both take memory.
func (x *exchange) growBody(announced int) error {
	size := nextBuffer(len(x.body), announced)
	if size <= cap(x.body) {
		return nil
	}
	if size > largeBuffer {
		x.buffers.moving.Lock()
		defer x.buffers.moving.Unlock()
	}
	if err := x.reserve(bufferSize(size)); err != nil {
		x.memory.Keep(0) // the next requests get the memory of this one, and are not all refused
		return err
	}
	x.setBody(append(x.buffers.get(size), x.body...))
	x.memory.Keep(int64(cap(x.body)))
	return nil
}

// setBody makes buffer the buffer of the body, and keeps the one before.
func (x *exchange) setBody(buffer []byte) {
	x.buffers.put(x.body)
	x.body = buffer
	if cap(buffer) <= smallBuffer {
		x.input.body = buffer[:0]
	}
}

// reserve takes memory for the request, until TakeBack.
func (x *exchange) reserve(bytes int) error {
	if verdict := x.memory.Take(int64(bytes)); verdict != memory.Granted {
		return x.noMemory(verdict, int64(bytes))
	}
	return nil
}
