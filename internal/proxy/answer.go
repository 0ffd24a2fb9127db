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
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

const (
	// maxReply bounds an answer that has to be whole before it is passed on.
	maxReply = 256 << 20
	// maxComplaint is how much of an error reply is read; its text is short.
	maxComplaint = 64 << 10
	// binaryRead is how much of a binary answer is passed on at a time.
	binaryRead = 16 << 10
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
	r.body = r.body[:0]
	contentType := strings.ToLower(response.Header("Content-Type"))
	switch shape := shapeOf(contentType); {
	case r.req.Stream && shape != document:
		if streamer, ok := speak.(dialect.Streamer); ok {
			if begun, err := r.beginStream(streamer, shape, deadline); begun || err != nil {
				return false, err
			}
		}
	case shape == events && asksForEvents(r.req):
		return false, r.beginPassing(deadline)
	case shape == events:
		return false, fmt.Errorf("%w: it is a stream, which was not asked for", dialect.ErrInvalid)
	case shape == unknown && r.req.Service == schema.TTS:
		return false, r.beginBinary(speak, contentType, deadline)
	}
	return true, r.takeWhole(speak, contentType)
}

// shape is what the type of an answer says about how to read it.
type shape uint8

const (
	unknown  shape = iota // bytes
	text                  // some text
	document              // JSON or a page
	events                // server-sent events
	lines                 // JSON in lines
)

func shapeOf(contentType string) shape {
	switch {
	case strings.Contains(contentType, "event-stream"):
		return events
	case strings.Contains(contentType, "ndjson"):
		return lines
	case strings.Contains(contentType, "json"), strings.Contains(contentType, "html"):
		return document
	case strings.HasPrefix(contentType, "text/"):
		return text
	}
	return unknown
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
	if r.req.Service == schema.STT && asksForEvents(r.req) {
		return r.tellTranscript()
	}
	if !r.req.Stream {
		return nil
	}
	events, err := dialect.CompletionEvents(r.req, slices.Concat(r.plain.Segments...), r.plain.Usage)
	if err != nil {
		return err
	}
	r.events = events
	return nil
}

// tellTranscript makes events of a whole transcript: who asked for them reads
// nothing else.
func (r *Reply) tellTranscript() error {
	events, err := openai.TranscriptEvents(&r.plain)
	if err != nil {
		return err
	}
	r.events, r.plain.ContentType = events, ""
	return nil
}

// beginStream begins an answer that was asked for as a stream. It has not begun,
// without an error, where it turns out to be a whole completion.
func (r *Reply) beginStream(speak dialect.Streamer, shape shape, deadline time.Time) (begun bool, err error) {
	if shape != events && shape != lines {
		isJSON, err := r.startsAsJSON(deadline)
		if isJSON || err != nil {
			return false, err
		}
	}
	body := io.Reader(r.response)
	if len(r.body) > 0 {
		body = io.MultiReader(bytes.NewReader(bytes.Clone(r.body)), r.response)
	}
	return true, r.beginEvents(speak.Events(r.req, body), deadline)
}

// beginEvents waits for the first event of a stream. Silence before it is part
// of the wait for an answer.
func (r *Reply) beginEvents(from dialect.Events, deadline time.Time) error {
	r.response.SetDeadline(deadline)
	first, err := from.Next()
	if err != nil {
		return err
	}
	r.response.SetDeadline(time.Time{})
	r.events, r.pending = from, first
	return nil
}

// startsAsJSON looks at the beginning of an answer whose type says nothing, and
// reports whether it is a completion rather than a stream.
func (r *Reply) startsAsJSON(deadline time.Time) (bool, error) {
	r.response.SetDeadline(deadline)
	defer r.response.SetDeadline(time.Time{})
	err := r.readSome()
	for err == nil && len(r.body) < maxComplaint && saysNothing(r.body) {
		err = r.readSome()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return bytes.HasPrefix(beyondBlanks(r.body), []byte("{")), nil
}

// byteOrder is the mark that some put before a text.
const byteOrder = "\ufeff"

// beyondBlanks returns a text from where it says something.
func beyondBlanks(start []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(start, []byte(byteOrder)), " \t\r\n")
}

// saysNothing tells that the beginning of a text may have anything behind it.
func saysNothing(start []byte) bool {
	return len(beyondBlanks(start)) == 0 || strings.HasPrefix(byteOrder, string(start))
}

// beginBinary waits for the first bytes of an answer that is passed on as it is.
// A backend may give an error in its place, under any type or none: what begins
// like JSON or a page, and is text to its end, is no audio. Audio soon has a byte
// that no text has; what is larger than an error may be is audio.
func (r *Reply) beginBinary(speak dialect.Adapter, contentType string, deadline time.Time) error {
	r.response.SetDeadline(deadline)
	err := r.readSome()
	read, isText := textFrom(r.body, 0)
	for err == nil && isText && beginsDocument(r.body) && len(r.body) < maxComplaint {
		err = r.readSome()
		read, isText = textFrom(r.body, read)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(r.body) == 0:
		return fmt.Errorf("%w: it is empty", dialect.ErrInvalid)
	case err != nil && isText && read == len(r.body) && beginsDocument(r.body):
		return speak.Reply(r.req, dialect.Answer{ContentType: contentType, Body: r.body}, &r.plain)
	}
	r.response.SetDeadline(time.Time{})
	r.binary = true
	r.plain.ContentType = openai.AudioType(contentType, r.req.AudioFormat(), r.body)
	return nil
}

// beginsDocument tells whether bytes begin like JSON or a page, or have not begun.
func beginsDocument(b []byte) bool {
	b = bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n")
	return len(b) == 0 || strings.IndexByte("{[\"<", b[0]) >= 0
}

// textFrom tells whether bytes are text from a place on, and how far they are: a
// character whose end is not there yet may still become one.
func textFrom(b []byte, at int) (read int, isText bool) {
	for at < len(b) {
		c := b[at]
		switch {
		case c == '\t', c == '\n', c == '\r', ' ' <= c && c < 0x7f:
			at++
		case c < utf8.RuneSelf:
			return at, false
		case !utf8.FullRune(b[at:]):
			return at, true
		default:
			char, size := utf8.DecodeRune(b[at:])
			if char == utf8.RuneError && size == 1 {
				return at, false
			}
			at += size
		}
	}
	return at, true
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

// readSome reads once, behind what is there.
func (r *Reply) readSome() error {
	r.body = slices.Grow(r.body, binaryRead)
	n, err := r.response.Read(r.body[len(r.body) : len(r.body)+binaryRead])
	r.body = r.body[:len(r.body)+n]
	return err
}
