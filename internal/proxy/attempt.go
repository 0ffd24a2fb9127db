package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

const (
	// maxReply bounds an answer that has to be whole before it is passed on.
	maxReply = 64 << 20
	// maxComplaint is how much of an error reply is read; its text is short.
	maxComplaint = 64 << 10
	// binaryRead is how much of a binary answer is passed on at a time.
	binaryRead = 16 << 10
)

// try puts the request to the instance that was picked and waits until the
// answer has begun: until all of a plain answer is there, or the first event of
// a stream.
func (r *Reply) try(ctx context.Context) *fault {
	instance := r.Instance
	r.outcome = breaker.Success
	speak := instance.Target.Speak
	if err := speak.Call(r.req, instance.Target, &r.call); err != nil {
		return r.classify(err)
	}
	r.call.Header = append(r.call.Header, adapter.Header{Name: "X-Request-Id", Value: r.caller.RequestID})
	if instance.Target.ForwardAuthorization && r.caller.Authorization != "" {
		r.call.Header = withAuthorization(r.call.Header, r.caller.Authorization)
	}
	r.call.Header = r.withTrace(r.call.Header)
	limits := &instance.Timeouts
	if limits.Total > 0 {
		ctx = r.within(ctx, limits.Total.Std())
	}
	firstByte, firstToken := limits.FirstByte.Std(), cmp.Or(limits.FirstToken, limits.FirstByte).Std()
	if r.req.Stream {
		// Many backends send the head together with the first event.
		firstByte = min(firstByte, firstToken)
	}
	sent := time.Now()
	deadline := sent.Add(firstToken)
	response, err := r.proxy.client.Send(ctx, instance.Origin, &r.call, transport.Timeouts{
		Connect:   limits.Connect.Std(),
		FirstByte: firstByte,
		Idle:      limits.Idle.Std(),
	})
	if err != nil {
		if backend.IsRefusal(err) {
			instance.Health.Refused(time.Now())
		}
		r.noteWait(sent, time.Now())
		return r.classify(err)
	}
	r.response = response
	err = r.begin(speak, deadline)
	r.FirstByte = time.Now()
	r.noteWait(sent, r.FirstByte)
	if err != nil {
		r.FirstByte = time.Time{}
		return r.classify(err)
	}
	return nil
}

// errTotal is the cause with which a call ends that took too long as a whole.
var errTotal = fmt.Errorf("%w: the whole answer took too long", transport.ErrTimeout)

// within bounds a call as a whole; the bound is lifted when the reply is closed.
func (r *Reply) within(ctx context.Context, total time.Duration) context.Context {
	ctx, r.cancel = context.WithTimeoutCause(ctx, total, errTotal)
	return ctx
}

// withAuthorization puts the caller's credential in place of the instance's.
func withAuthorization(header []adapter.Header, value string) []adapter.Header {
	header = slices.DeleteFunc(header, func(h adapter.Header) bool { return strings.EqualFold(h.Name, "Authorization") })
	return append(header, adapter.Header{Name: "Authorization", Value: value})
}

// begin reads as much of the response as must be there before the client is
// told that the request succeeded.
func (r *Reply) begin(speak adapter.Adapter, deadline time.Time) error {
	response := r.response
	if encoding := response.Header("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("%w: it is compressed, which was not asked for", adapter.ErrInvalid)
	}
	if response.Status != 200 {
		return r.refusal()
	}
	contentType := strings.ToLower(response.Header("Content-Type"))
	whole := strings.Contains(contentType, "html") ||
		strings.Contains(contentType, "json") && !strings.Contains(contentType, "ndjson")
	if r.req.Service == schema.TTS && !whole {
		return r.beginBinary(contentType, deadline)
	}
	r.body = r.body[:0]
	if streamer, ok := speak.(adapter.Streamer); ok && r.req.Stream && !whole {
		var err error
		if !strings.Contains(contentType, "event-stream") && !strings.Contains(contentType, "ndjson") {
			whole, err = r.startsAsJSON(deadline)
		}
		if err != nil {
			return err
		}
		if !whole {
			return r.beginEvents(streamer, deadline)
		}
	}
	if strings.HasPrefix(contentType, "text/event-stream") {
		return fmt.Errorf("%w: it is a stream, which was not asked for", adapter.ErrInvalid)
	}
	if err := r.readBody(maxReply); err != nil {
		return err
	}
	r.answered = time.Now()
	if err := speak.Reply(r.req, adapter.Answer{ContentType: contentType, Body: r.body}, &r.plain); err != nil {
		return err
	}
	if !r.req.Stream {
		return nil
	}
	events, err := adapter.CompletionEvents(r.req, slices.Concat(r.plain.Segments...), r.plain.Usage)
	if err != nil {
		return err
	}
	r.events = events
	return nil
}

// beginEvents waits for the first event of a stream. Silence before it is part
// of the wait for an answer.
func (r *Reply) beginEvents(speak adapter.Streamer, deadline time.Time) error {
	r.response.SetDeadline(deadline)
	body := io.Reader(r.response)
	if len(r.body) > 0 {
		body = io.MultiReader(bytes.NewReader(bytes.Clone(r.body)), r.response)
	}
	r.events = speak.Events(r.req, body)
	first, err := r.events.Next()
	if err != nil {
		r.events = nil
		return err
	}
	r.response.SetDeadline(time.Time{})
	r.pending = first
	return nil
}

// startsAsJSON looks at the beginning of an answer whose type says nothing, and
// reports whether it is a completion rather than a stream.
func (r *Reply) startsAsJSON(deadline time.Time) (bool, error) {
	r.response.SetDeadline(deadline)
	defer r.response.SetDeadline(time.Time{})
	r.body = slices.Grow(r.body, binaryRead)
	n, err := r.response.Read(r.body[:binaryRead])
	r.body = r.body[:n]
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.HasPrefix(bytes.TrimLeft(r.body, " \t\r\n"), []byte("{")), nil
}

// beginBinary waits for the first bytes of an answer that is passed on as it is.
func (r *Reply) beginBinary(contentType string, deadline time.Time) error {
	r.response.SetDeadline(deadline)
	r.body = slices.Grow(r.body[:0], binaryRead)
	n, err := r.response.Read(r.body[:binaryRead])
	if errors.Is(err, io.EOF) && n == 0 {
		return fmt.Errorf("%w: it is empty", adapter.ErrInvalid)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.response.SetDeadline(time.Time{})
	r.body = r.body[:n]
	r.binary = true
	r.plain.ContentType = adapter.AudioType(contentType, r.req.AudioFormat(), r.body)
	return nil
}

// refusal reads a response whose status is no success.
func (r *Reply) refusal() error {
	status := r.response.Status
	if status < 400 {
		// Redirects are not followed: the key must not go where a backend points.
		return fmt.Errorf("%w: status %d", adapter.ErrInvalid, status)
	}
	retryAfter := parseRetryAfter(r.response.Header, time.Now())
	// A body that cannot be read whole still leaves the status to report.
	r.body = r.body[:0]
	_ = r.readBody(maxComplaint)
	return &refused{Failure: adapter.ReadFailure(status, r.body), retryAfter: retryAfter}
}

// readBody reads the rest of the response into the reply's own buffer.
func (r *Reply) readBody(limit int) error {
	for {
		if len(r.body) > limit {
			return fmt.Errorf("%w: larger than %d bytes", adapter.ErrInvalid, limit)
		}
		if len(r.body) == cap(r.body) {
			r.body = slices.Grow(r.body, max(4<<10, len(r.body)))
		}
		n, err := r.response.Read(r.body[len(r.body):cap(r.body)])
		r.body = r.body[:len(r.body)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
