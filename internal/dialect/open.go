package dialect

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Delivery is how an answer reaches the client.
type Delivery uint8

// The deliveries of answers.
const (
	// Whole means that all of the answer is read before it is passed on.
	Whole Delivery = iota
	// Streamed means that events are passed on as they come.
	Streamed
	// Binary means that bytes are passed on as they come.
	Binary
)

// Opening is a successful answer, read as far as it must be there before the client is
// told that the request succeeded.
type Opening struct {
	Delivery Delivery
	// Events is the answer if it is a stream, and First its first event.
	Events *Stream
	First  []byte
	// ContentType is the type that the client is told; empty means the type of the
	// unified answer.
	ContentType string
	// Read holds the bytes that were read of an answer that is not a stream.
	Read []byte
}

// Incoming is the body of a successful answer before anything of it was read.
type Incoming struct {
	ContentType string // in lower case
	From        io.Reader
	// Buffer is empty memory to read into.
	Buffer []byte
	// Model is the name of the model that the client is told.
	Model string
}

// Open decides how an answer is delivered, by its content type and, where that is not
// enough, by its first bytes. It reads the first event of a stream or the first bytes of
// a binary answer, and nothing of any other answer. It adds its findings to the opening,
// which must be empty.
func (o *Opening) Open(speaker Speaker, req *schema.Request, in *Incoming) error {
	o.Read = in.Buffer
	switch bodyType := bodyTypeOf(in.ContentType); {
	case req.Stream && bodyType != document:
		if !speaker.Streams() {
			return nil
		}
		return o.openStream(speaker, req, in.From, bodyType == events || bodyType == lines)
	case bodyType == events:
		if speaker.PassEvents == nil || !speaker.AsksForEvents(req) {
			return Invalid("it is a stream, which was not asked for")
		}
		o.ContentType = "text/event-stream"
		return o.first(speaker.PassEvents(in.Model, in.From))
	case bodyType == unknown && speaker.BinaryType != nil:
		return o.openBinary(speaker.BinaryType, req, in)
	}
	return nil
}

// bodyType is the way to read an answer, by its content type.
type bodyType uint8

const (
	unknown  bodyType = iota // bytes
	text                     // some text
	document                 // JSON or a page
	events                   // server-sent events
	lines                    // JSON in lines
)

func bodyTypeOf(contentType string) bodyType {
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

// openStream opens the answer to a request for a stream. If its type does not say
// that it is one, it may as well be a whole completion.
func (o *Opening) openStream(speaker Speaker, req *schema.Request, from io.Reader, typed bool) error {
	if !typed {
		err := o.readSome(from)
		for err == nil && len(o.Read) < maxSniffed && isUndecided(o.Read) {
			err = o.readSome(from)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if bytes.HasPrefix(skipBlanks(o.Read), []byte("{")) {
			return nil
		}
	}
	if len(o.Read) > 0 {
		from = io.MultiReader(bytes.NewReader(bytes.Clone(o.Read)), from)
	}
	return o.first(speaker.Events(req, from))
}

// first waits for the first event of a stream.
func (o *Opening) first(from *Stream) error {
	var err error
	o.First, err = from.Next()
	o.Delivery, o.Events = Streamed, from
	return err
}

// openBinary waits for the first bytes of an answer that is passed on as it is. A
// backend may give an error in its place, under any type or none: a body that begins
// like JSON or a page, and is text to its end, is no audio. Audio soon has a byte that
// no text has, and a body larger than any error is audio.
func (o *Opening) openBinary(binaryType func(string, *schema.Request, []byte) string, req *schema.Request,
	in *Incoming) error {
	err := o.readSome(in.From)
	read, isText := scanText(o.Read, 0)
	for err == nil && isText && beginsDocument(o.Read) && len(o.Read) < maxSniffed {
		err = o.readSome(in.From)
		read, isText = scanText(o.Read, read)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case len(o.Read) == 0:
		return Invalid("it is empty")
	case err != nil && isText && read == len(o.Read) && beginsDocument(o.Read):
		return nil // all of it was read, and Adapter.Reply judges it
	}
	o.Delivery, o.ContentType = Binary, binaryType(in.ContentType, req, o.Read)
	return nil
}

const (
	// maxSniffed is how much of an answer is looked at to tell its form.
	maxSniffed = 64 << 10
	// sniffRead is how much is read at a time for that.
	sniffRead = 16 << 10
)

// readSome reads once, behind the bytes that were read before.
func (o *Opening) readSome(from io.Reader) error {
	o.Read = slices.Grow(o.Read, sniffRead)
	n, err := from.Read(o.Read[len(o.Read) : len(o.Read)+sniffRead])
	o.Read = o.Read[:len(o.Read)+n]
	return err
}

// skipBlanks returns a text without a byte order mark and blanks at its beginning.
func skipBlanks(start []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(start, []byte(jsonscan.ByteOrderMark)), " \t\r\n")
}

// isUndecided reports whether the beginning of a text is blank and does not tell its
// kind.
func isUndecided(start []byte) bool {
	return len(skipBlanks(start)) == 0 || strings.HasPrefix(jsonscan.ByteOrderMark, string(start))
}

// beginsDocument reports whether bytes begin like JSON or a page, or have not begun.
func beginsDocument(b []byte) bool {
	b = skipBlanks(b)
	return len(b) == 0 || strings.IndexByte("{[\"<", b[0]) >= 0
}

// scanText reports whether bytes are text from an offset on, and up to where: a
// character at the end that is incomplete is left for the next call.
func scanText(b []byte, at int) (read int, isText bool) {
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
