package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

// IsToken reports whether s can be a method or the name of a field.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || tokenBytes[c>>6]>>(c&0x3f)&1 == 0 {
			return false
		}
	}
	return len(s) > 0
}

// IsNamed reports whether the name of a field is the given one, in whatever case. Most names
// differ in length already.
func IsNamed[T string | []byte](field T, name string) bool {
	return len(field) == len(name) && strings.EqualFold(string(field), name)
}

// tokenBytes has a bit for each byte of ASCII that a token may have: digits, letters and some signs.
var tokenBytes = [2]uint64{
	(1<<10-1)<<'0' | 1<<'!' | 1<<'#' | 1<<'$' | 1<<'%' | 1<<'&' | 1<<'\'' | 1<<'*' | 1<<'+' | 1<<'-' | 1<<'.',
	(1<<26-1)<<('A'-64) | (1<<26-1)<<('a'-64) | 1<<('^'-64) | 1<<('_'-64) | 1<<('`'-64) | 1<<('|'-64) | 1<<('~'-64),
}

// TrimBlanks returns s without the spaces and tabs around it.
func TrimBlanks[T string | []byte](s T) T {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	return trimEnd(s)
}

// trimEnd returns s without the spaces and tabs at its end.
func trimEnd[T string | []byte](s T) T {
	for len(s) > 0 && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// IsVisible reports whether s has nothing but visible ASCII characters, which excludes
// spaces.
func IsVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// IsText reports whether s has no control characters but tabs.
func IsText[T string | []byte](s T) bool {
	for len(s) >= 8 {
		if mayHaveControl(binary.LittleEndian.Uint64([]byte(s[:8]))) && !isTextSlowly(s[:8]) {
			return false
		}
		s = s[8:]
	}
	return isTextSlowly(s)
}

func isTextSlowly[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// mayHaveControl reports whether one of eight bytes may be below a space, or
// delete.
func mayHaveControl(eight uint64) bool {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	below := (eight - ' '*ones) &^ eight
	deleted := eight ^ 0x7f*ones
	return (below|(deleted-ones)&^deleted)&highs != 0
}

// ParseLength reads a Content-Length. It accepts digits only; eighteen of them cannot
// overflow.
func ParseLength[T string | []byte](s T) (int64, bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}

const (
	// maxChunkLine bounds the line before a chunk.
	maxChunkLine = 2 << 10
	// maxTrailers bounds the trailers of a body together. They are read and not used.
	maxTrailers = 2 << 10
	// maxExcess bounds extensions of chunks, which are read and not used either, beyond
	// the allowance by freeChunk and the size of the chunk.
	maxExcess = 16 << 10
	freeChunk = 16
)

// Chunks finds the data in a body that comes in chunks. It is strict: ambiguous framing
// is an error. The zero value is before the first chunk.
type Chunks struct {
	// Left is how many bytes of data come next. A reader subtracts the bytes that it
	// takes.
	Left int64
	// AllowBlanks permits blanks before an extension, as RFC 9112 does for senders of long
	// ago.
	AllowBlanks bool

	inside   bool // a chunk has begun: its end comes when nothing is left of it
	trailing bool // the last chunk has come
	ended    bool
	excess   int64 // bytes of extensions that are not made up for by data
	trailers int   // bytes of them
}

// Ended reports whether the body has ended.
func (c *Chunks) Ended() bool { return c.ended }

// Step reads the framing at the beginning of the bytes that have come, while nothing is
// left of a chunk, and returns how many bytes it took; 0 without an error means that more
// must come. It is to be called until something is left. The error is io.EOF at the end of
// the body, together with the last bytes that belong to it.
func (c *Chunks) Step(came []byte) (int, error) {
	if c.ended {
		return 0, io.EOF
	}
	if c.inside {
		return c.endChunk(came)
	}
	line, err := chunkLine(came)
	if line == nil || err != nil {
		return 0, err
	}
	taken := len(line) + len("\r\n")
	switch {
	case !c.trailing:
		err = c.beginChunk(line)
	case len(line) == 0:
		c.ended = true
		err = io.EOF
	default:
		err = c.trailer(line)
	}
	return taken, err
}

// beginChunk reads the line before a chunk.
func (c *Chunks) beginChunk(line []byte) error {
	digits, _, _ := bytes.Cut(trimEnd(line), []byte(";"))
	if c.AllowBlanks {
		digits = trimEnd(digits)
	}
	size, ok := parseChunkSize(digits)
	if !ok {
		return errors.New("malformed size of a chunk")
	}
	if c.excess = max(0, c.excess+int64(len(line))+2-freeChunk-2*size); c.excess > maxExcess {
		return errors.New("too many extensions of chunks")
	}
	c.Left, c.inside, c.trailing = size, size > 0, size == 0
	return nil
}

// endChunk reads the end of a line behind the data of a chunk. It looks at each byte as
// soon as it has come: waiting for the rest of a chunk that is longer than announced could
// take for ever.
func (c *Chunks) endChunk(came []byte) (int, error) {
	const end = "\r\n"
	got := came[:min(len(came), len(end))]
	if string(got) != end[:len(got)] {
		return 0, errors.New("a chunk that is longer than announced")
	}
	if len(got) < len(end) {
		return 0, nil
	}
	c.inside = false
	return len(end), nil
}

// trailer reads a field behind the last chunk.
func (c *Chunks) trailer(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !IsToken(name) || !IsText(value) {
		return errors.New("malformed trailer")
	}
	if c.trailers += len(line) + 2; c.trailers > maxTrailers {
		return errors.New("too many trailers")
	}
	return nil
}

// chunkLine returns the first line of b without its end, nil if that has not come. Only
// a carriage return with a line feed ends it.
func chunkLine(b []byte) ([]byte, error) {
	end := bytes.IndexByte(b, '\r')
	switch {
	case end < 0:
		end = len(b)
	case end < len(b)-1 && b[end+1] != '\n':
		return nil, errors.New("a carriage return without a line feed")
	}
	if bytes.IndexByte(b[:end], '\n') >= 0 {
		return nil, errors.New("a line feed without a carriage return")
	}
	if end > maxChunkLine {
		return nil, errors.New("a line between chunks is too long")
	}
	if end >= len(b)-1 {
		return nil, nil
	}
	return b[:end:end], nil
}

// parseChunkSize parses a hexadecimal number of at most 60 bits.
func parseChunkSize(digits []byte) (size int64, ok bool) {
	const most = 15
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		size = size<<4 | int64(c)
	}
	return size, 0 < len(digits) && len(digits) <= most
}
