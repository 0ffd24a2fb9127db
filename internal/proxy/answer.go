package proxy

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
)

const (
	// maxReply bounds an answer that has to be whole before it is passed on.
	maxReply = 256 << 20
	// maxComplaint is how much of an error reply is read; its text is short.
	maxComplaint = 64 << 10
)

// errReplyTooLarge means that an answer exceeds maxReply.
var errReplyTooLarge = errors.New("the backend's answer is too large")

// begin reads as much of the response as must be there before the client is
// told that the request succeeded, and tells whether that was all of it.
func (r *Reply) begin(speak dialect.Adapter, deadline time.Time) (whole bool, err error) {
	response := r.response
	if response.Status < 200 || response.Status > 299 {
		return false, r.refusal()
	}
	if encodingOf(response.Header("Content-Encoding")) != "" {
		return false, fmt.Errorf("%w: it is compressed, which was not asked for", dialect.ErrInvalid)
	}
	contentType := strings.ToLower(response.Header("Content-Type"))
	// Silence before the first event or byte is part of the wait for an answer.
	response.SetDeadline(deadline)
	opening, err := dialect.Open(speak, r.req, dialect.Incoming{
		ContentType: contentType, From: response, Buffer: r.body[:0], Model: r.Model,
	})
	response.SetDeadline(time.Time{})
	r.body = opening.Read
	if err != nil {
		return false, err
	}
	if opening.Form == dialect.Whole {
		return true, r.takeWhole(speak, contentType)
	}
	r.plain.ContentType = opening.ContentType
	r.events, r.pending, r.binary = opening.Events, opening.First, opening.Form == dialect.Binary
	r.framed, _ = opening.Events.(dialect.FramedEvents)
	return false, nil
}

// takeWhole reads an answer that is passed on when all of it is there.
func (r *Reply) takeWhole(speak dialect.Adapter, contentType string) error {
	if r.response.Length > maxReply {
		return errReplyTooLarge
	}
	if err := r.readBody(maxReply); err != nil {
		return err
	}
	r.answered = time.Now()
	if err := speak.Reply(r.req, dialect.Answer{ContentType: contentType, Body: r.body}, &r.plain); err != nil {
		return err
	}
	var err error
	r.events, err = dialect.EventsOf(speak, r.req, &r.plain)
	return err
}

// refusal reads a response whose status is no success.
func (r *Reply) refusal() error {
	status := r.response.Status
	if status < 400 || status > 599 {
		// Redirects are not followed: the key must not go where a backend points.
		return fmt.Errorf("%w: status %d", dialect.ErrInvalid, status)
	}
	retryAfter := parseRetryAfter(r.response.Header, time.Now())
	// A body that cannot be read whole still leaves the status to report.
	r.body = r.body[:0]
	_ = r.readBody(maxComplaint)
	words := unpacked(r.body, encodingOf(r.response.Header("Content-Encoding")))
	return &refused{Failure: dialect.ReadFailure(status, words), retryAfter: retryAfter}
}

// encodingOf reads how a body is compressed; empty means that it is not.
func encodingOf(field string) string {
	if strings.EqualFold(field, "identity") {
		return ""
	}
	return strings.ToLower(field)
}

// unpacked returns what an error says that came compressed, unasked. Nothing
// depends on it, so the beginning is enough.
func unpacked(body []byte, encoding string) []byte {
	switch encoding {
	case "":
		return body
	case "gzip", "x-gzip":
		from, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return body // it only says so
		}
		words, _ := io.ReadAll(io.LimitReader(from, maxComplaint))
		return words
	}
	return []byte("(a compressed text)")
}

// readBody reads the rest of the response into the reply's own buffer.
func (r *Reply) readBody(limit int) error {
	for {
		if len(r.body) > limit {
			return errReplyTooLarge
		}
		if len(r.body) == cap(r.body) {
			r.body = slices.Grow(r.body, min(max(4<<10, len(r.body)), limit+1-len(r.body)))
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
