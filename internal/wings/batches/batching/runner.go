package batching

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// Runner runs lines as requests: through the shell, the door and the proxy, as if their owners
// had sent them, without a connection.
type Runner struct {
	unified *v1.API
	keys    access.Callers
	proxy   *proxy.Proxy
	shell   *web.Shell // nil until Use
}

// NewRunner returns a runner, which needs a shell before its first line.
func NewRunner(unified *v1.API, keys access.Callers, proxy *proxy.Proxy) *Runner {
	return &Runner{unified: unified, keys: keys, proxy: proxy}
}

// Use sets the shell that all requests pass.
func (r *Runner) Use(shell *web.Shell) { r.shell = shell.With(http.HandlerFunc(r.serve)) }

var _ batches.Runner = (*Runner)(nil)

// Room returns how many lines for a model may run at a time now: the running ones, plus the
// free slots that no request waits for. A line that finds none after all holds nothing, and waits for
// room again.
func (r *Runner) Room(endpoint, model string) int {
	return r.proxy.SpareSlots(serviceOf(endpoint), model)
}

// RoomInAll returns how many lines may run at a time now, with the running ones.
func (r *Runner) RoomInAll() int { return r.unified.RoomForLines() }

// Presence returns whether a model is served now.
func (r *Runner) Presence(endpoint, model string) batches.Presence {
	serves, mayBeFound := r.proxy.Serves(serviceOf(endpoint), model)
	switch {
	case serves:
		return batches.Served
	case mayBeFound:
		return batches.Unclear
	}
	return batches.Absent
}

// AwaitRoom waits until there is room for more lines than run, or the context ends.
func (r *Runner) AwaitRoom(ctx context.Context, endpoint, model string, running func() int) {
	r.proxy.AwaitSpareSlot(ctx, serviceOf(endpoint), model, running)
}

func serviceOf(endpoint string) schema.ServiceType {
	if endpoint == "/v1/embeddings" {
		return schema.Embedding
	}
	return schema.Chat
}

// Stands reports whether the key of an owner is still good.
func (r *Runner) Stands(owner files.Owner) bool {
	_, ok := r.keys.Bearer(owner.Key, owner.Issue, owner.Claims)
	return ok
}

// Run runs a line.
func (r *Runner) Run(ctx context.Context, call batches.Call) batches.Answer {
	grant, ok := r.keys.Bearer(call.Owner.Key, call.Owner.Issue, call.Owner.Claims)
	if !ok {
		return batches.Answer{Status: http.StatusUnauthorized, Code: schema.CodeInvalidAPIKey,
			Body: schema.CodedError(schema.CodeInvalidAPIKey, "call.key_ended").Body()}
	}
	request := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: call.Endpoint}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(call.Body)),
		Body:       io.NopCloser(bytes.NewReader(call.Body)),
		RequestURI: call.Endpoint,
	}
	request.Header["X-Router-Run"] = []string{call.Batch} // the lines of a batch are one run
	if call.Endpoint == messagesPath {
		request.Header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	l := &lineRequest{as: v1.Bearer{Grant: grant, Tenant: call.Owner.Tenant}}
	if grant.NamesUser() {
		l.as.User = call.User
	}
	reply := &reply{header: http.Header{}}
	r.pass(reply, request.WithContext(context.WithValue(ctx, lineKey{}, l)))
	answer := batches.Answer{
		Status: reply.status, RequestID: l.record.RequestID, Body: reply.body.Bytes(), Code: l.record.Code,
		Prompt: l.record.Usage.Prompt, Completion: l.record.Usage.Completion, Cost: int64(l.record.Cost),
	}
	if l.told != nil {
		explain(&answer, l.told, call.Endpoint)
	}
	return answer
}

// explain adds the properties of the line's error to an answer.
func explain(answer *batches.Answer, told *schema.Error, endpoint string) {
	answer.Said = told.Said
	answer.RetryAfter, answer.NoRetry, answer.IsUnknown = told.RetryAfter, told.NoRetry, told.UnknownModel != ""
	switch transport.Cause(told.Cause) {
	case transport.CauseReset, transport.CauseClosed, transport.CauseWriteTimeout, transport.CauseTimeout,
		transport.CauseIdleTimeout:
	case transport.CauseNotHTTP, transport.CauseHeadTooLarge:
		answer.IsUnread = true
	case transport.CauseNone:
		answer.IsUnread = told.Code == schema.CodeUpstreamError && told.Status == 0
	default:
		answer.IsUnreached = true
	}
	if answer.IsUnknown && endpoint == messagesPath {
		// Clients take the overload that a 503 is there for a reason to send the line again.
		unknown := schema.NewError(schema.CodeModelNotFound, told.Said)
		unknown.Details = told.Details
		answer.Status, answer.Body = unknown.HTTPStatus(), messages.Error(unknown, answer.RequestID)
	}
}

// lineRequest is a line on its way through the shell, and lineKey where its context has it.
type (
	lineRequest struct {
		as     v1.Bearer
		record calls.Record
		told   *schema.Error // nil for an answer
	}
	lineKey struct{}
)

// pass passes a request to the shell. A reply that was aborted has no status.
func (r *Runner) pass(to *reply, request *http.Request) {
	defer func() {
		if caught := logs.Caught(recover()); errors.Is(caught, http.ErrAbortHandler) {
			to.status = 0
		} else {
			caught.Raise()
		}
	}()
	r.shell.ServeHTTP(to, request)
}

// serve answers a request that has passed the shell.
func (r *Runner) serve(w http.ResponseWriter, q *http.Request) {
	l := q.Context().Value(lineKey{}).(*lineRequest)
	defer func() { l.record = *web.RecordOf(w) }()
	l.told = r.unified.ServeAs(w, q, l.as)
	if l.told != nil && l.told.Code == schema.CodeNoSlot {
		record := web.RecordOf(w) // it is no request yet: it waits for room
		record.Gone, record.Routed = true, false
	}
}

// reply is the writer of a reply that is kept in memory.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the reply.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader notes the status.
func (r *reply) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write adds to the body.
func (r *reply) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}
