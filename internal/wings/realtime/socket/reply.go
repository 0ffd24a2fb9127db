package socket

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// answer answers a message: the request that it is passes through the gateway, and the
// events of its reply become messages.
func (s *session) answer(c *create) {
	before := s.find(c.previous)
	if !c.generates {
		s.prepare(c, before)
		return
	}
	if before != nil {
		if fault := c.orphan(before); fault != nil {
			s.forget(c.previous)
			s.sendError(c.lane, fault)
			return
		}
	}
	body := c.body(before)
	header := s.header.Clone()
	header["X-Request-Id"] = []string{s.nextID(s.id)}
	request := requestFor(s.calls, s.opened, header)
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r := &reply{session: s, create: c, before: before, header: http.Header{}}
	r.serve(request)
	r.finish()
	if !r.succeeded {
		s.forget(c.previous)
	}
}

// prepare answers a message that asks for no output: its input is kept for the message that
// continues it. No backend is asked.
func (s *session) prepare(c *create, before *conversation) {
	fault := s.visit()
	root := c.doc.Root()
	if fault == nil && c.previous != "" && before == nil {
		fault = responses.NotFound(c.previous)
	}
	if fault == nil {
		if err := responses.Refuse(root); err != nil {
			errors.As(err, &fault)
		}
	}
	if fault != nil {
		s.forget(c.previous)
		s.sendError(c.lane, fault)
		return
	}
	id := responses.NewID()
	echo := responses.EchoOf(root)
	for number, status := range []string{"in_progress", "completed"} {
		var w jsonwrite.Writer
		w.Open(`{"id":`)
		w.Plain(id)
		w.Name("status")
		w.Plain(status)
		if status == "completed" {
			w.Literal(`"usage":{}`)
		}
		w.EndObject()
		var doc jsonscan.Document
		if doc.Parse(w.Out) != nil {
			return // it cannot fail
		}
		response := bytes.Join(doc.Splice(nil, echo.Complete(nil, doc.Root())), nil)
		var event jsonwrite.Writer
		event.Open(`{"type":`)
		if status == "completed" {
			event.Plain("response.completed")
		} else {
			event.Plain("response.created")
		}
		event.Name("sequence_number")
		event.Int(int64(number))
		event.Name("response")
		event.Raw(response)
		event.EndObject()
		if status == "completed" {
			s.keep(c, before, doc.Root())
		}
		if s.send(withLane(event.Out, c.lane)) != nil {
			return
		}
	}
}

// visit counts a message without a call of a backend in the limits of the caller.
func (s *session) visit() *schema.Error {
	grant, refusal := s.doors.options.Keys.Identify(s.header, s.who.addr)
	if refusal != nil {
		return refusal
	}
	visit := account.Account{
		Asks:   &schema.Request{Service: schema.DoorResponses.Service()},
		Caller: &access.Caller{Addr: s.who.addr, Grant: grant}, Table: s.doors.options.Current.Load(),
	}
	defer visit.Close()
	return visit.Visit()
}

// find returns the conversation that ends with a response, nil where the connection does
// not have it.
func (s *session) find(id string) *conversation {
	if id == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.kept {
		if c.id == id {
			return c
		}
	}
	return nil
}

// forget forgets a conversation. The API wants that where a request failed that continued
// it.
func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(c *conversation) bool { return c.id == id })
}

// drop forgets conversations; mu is held.
func (s *session) drop(unwanted func(*conversation) bool) {
	left := s.kept[:0]
	for _, c := range s.kept {
		if unwanted(c) {
			s.memory.Keep(s.memory.Held() - int64(len(c.items)))
		} else {
			left = append(left, c)
		}
	}
	clear(s.kept[len(left):])
	s.kept = left
}

// keep keeps the conversation that ends with a response, in place of the one that its lane
// had before. The oldest gives way where there are many lanes, or much is kept.
func (s *session) keep(c *create, before *conversation, response jsonscan.Value) {
	limit := int(s.doors.options.Current.Load().Limits.JSONBody)
	made := c.continued(before, response, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(old *conversation) bool { return old.lane == c.lane })
	if made == nil || made.id == "" {
		return
	}
	for size := len(made.items); len(s.kept) > 0; {
		for _, other := range s.kept {
			size += len(other.items)
		}
		if len(s.kept) < mostRunning && size <= limit {
			break
		}
		oldest := s.kept[0]
		s.drop(func(old *conversation) bool { return old == oldest })
		size = len(made.items)
	}
	if s.memory.Take(int64(len(made.items))) == memory.Granted {
		s.kept = append(s.kept, made)
	}
}

// reply is the http.ResponseWriter of a request that came as a message.
type reply struct {
	session *session
	create  *create
	before  *conversation
	header  http.Header
	status  int
	// rest holds the bytes of an incomplete event, or of the body of an error.
	rest []byte
	// err is why nothing more can be sent.
	err error
	// ended says that the last event was sent, and succeeded that it was one of success.
	ended, succeeded bool
}

// serve has the gateway answer the request.
func (r *reply) serve(request *http.Request) {
	defer func() {
		if caught := logs.Caught(recover()); !errors.Is(caught, http.ErrAbortHandler) {
			caught.Raise()
		}
	}()
	(*r.session.doors.handler.Load()).ServeHTTP(r, request)
}

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *reply) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return len(p), r.Send(p)
}

// Flush implements http.Flusher; every event is sent as soon as it is complete.
func (*reply) Flush() {}

// Send adds to the reply and sends the events that are complete.
func (r *reply) Send(p []byte) error {
	if r.err != nil {
		return r.err
	}
	r.rest = append(r.rest, p...)
	if r.status != http.StatusOK || !strings.HasPrefix(r.header.Get("Content-Type"), proxy.TypeEvents) {
		return nil // an error, which is sent at the end
	}
	rest := r.rest
	for r.err == nil {
		event, after, whole := bytes.Cut(rest, []byte("\n\n"))
		if !whole {
			break
		}
		rest = after
		if data := dataOf(event); len(data) > 0 && data[0] == '{' {
			r.err = r.sendEvent(data)
		}
	}
	r.rest = append(r.rest[:0], rest...)
	return r.err
}

// dataOf returns the data of an event, which the gateway writes into one line.
func dataOf(event []byte) []byte {
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		if data, isData := bytes.CutPrefix(line, []byte("data: ")); isData {
			return data
		}
	}
	return nil
}

// sendEvent sends an event as a message.
func (r *reply) sendEvent(data []byte) error {
	// Deltas, which are most of the events, are passed on unseen.
	if head := data[:min(len(data), 64)]; bytes.Contains(head, []byte(`.delta"`)) {
		return r.session.send(withLane(data, r.create.lane))
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(data) != nil {
		return r.session.send(withLane(data, r.create.lane)) // the client decides how to use it
	}
	root := doc.Root()
	response := root.Get("response")
	switch kind := string(root.Get("type").Text()); kind {
	case "error":
		r.ended = true
		if root.Get("error").Kind() != jsonscan.Object {
			data = nestedError(root)
		}
	case "response.completed", "response.incomplete":
		r.ended, r.succeeded = true, true
		if !r.create.stores {
			r.session.keep(r.create, r.before, response)
		}
	case "response.failed":
		r.ended = true
	}
	if previous := response.Get("previous_response_id"); r.before != nil && previous.Kind() != jsonscan.Absent {
		// The request had the conversation itself in place of the id.
		data = bytes.Join(doc.Splice(nil, []jsonscan.Edit{previous.Replace(jsonwrite.AppendText(nil, r.before.id))}),
			nil)
	}
	return r.session.send(withLane(data, r.create.lane))
}

// nestedError returns an error of a stream in the form that it has over a WebSocket.
func nestedError(root jsonscan.Value) []byte {
	var w jsonwrite.Writer
	w.Open(`{"type":"error","error":{"type":"server_error"`)
	w.Close("")
	for _, name := range [...]string{"code", "message", "param"} {
		w.Name(name)
		if member := root.Get(name); member.Kind() != jsonscan.Absent {
			w.Raw(member.Raw())
		} else {
			w.Literal("null")
		}
	}
	w.EndObject()
	if number := root.Get("sequence_number"); number.Given() {
		w.Member("sequence_number", number.Raw())
	}
	w.EndObject()
	return w.Out
}

// finish sends the error that a reply was, or says that an answer broke off.
func (r *reply) finish() {
	if r.err != nil || r.ended {
		return
	}
	body, status := r.rest, r.status
	if status < http.StatusBadRequest {
		broken := schema.CodedError(schema.CodeUpstreamTruncated, "call.broke_off")
		body, status = broken.Body(), broken.HTTPStatus()
	}
	headers := map[string]string{}
	for _, name := range [...]string{"X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
		if value := r.header.Get(name); value != "" {
			headers[strings.ToLower(name)] = value
		}
	}
	_ = r.session.send(errorEvent(r.create.lane, status, body, headers)) // the client may be gone
}

// retryHeader returns the headers of an error that is not a reply.
func retryHeader(known *schema.Error) map[string]string {
	headers := map[string]string{}
	if known.RetryAfter > 0 {
		headers["retry-after"] = strconv.FormatInt(int64((known.RetryAfter+time.Second-1)/time.Second), 10)
	}
	if known.NoRetry {
		headers["x-should-retry"] = "false"
	}
	return headers
}

// errorEvent returns the event that an error is, given the body of the reply that it would be
// over HTTP.
func errorEvent(lane string, status int, body []byte, headers map[string]string) []byte {
	var w jsonwrite.Writer
	w.Open(`{"type":"error"`)
	w.Close("")
	w.Name("status")
	w.Int(int64(status))
	var doc jsonscan.Document
	if doc.Parse(body) == nil && doc.Root().Get("error").Kind() == jsonscan.Object {
		w.Member("error", doc.Root().Get("error").Raw())
	} else {
		w.Literal(`"error":{"type":"api_error","code":"internal_error","message":"The gateway failed to handle the ` +
			`message.","param":null}`)
	}
	writeHeaders(&w, headers)
	w.EndObject()
	return withLane(w.Out, lane)
}

// writeHeaders adds the headers that an error would have over HTTP. Codex reads them there.
func writeHeaders(w *jsonwrite.Writer, headers map[string]string) {
	if len(headers) == 0 {
		return
	}
	w.Name("headers")
	w.Object()
	for _, name := range [...]string{"x-request-id", "retry-after", "retry-after-ms", "x-should-retry"} {
		if value := headers[name]; value != "" {
			w.Name(name)
			w.Text([]byte(value))
		}
	}
	w.EndObject()
}

// withLane returns an event, which is an object, with the lane of the message that it answers.
func withLane(event []byte, lane string) []byte {
	if lane == "" {
		return event
	}
	members := bytes.TrimLeft(event[1:], " \t\r\n")
	named := append(make([]byte, 0, len(event)+len(lane)+32), `{"stream_id":`...)
	named = jsonwrite.AppendText(named, lane)
	if !bytes.HasPrefix(members, []byte("}")) {
		named = append(named, ',')
	}
	return append(named, members...)
}
