package web

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/front"
)

// framing parses the bytes that a client sends, just enough to find where each request
// ends, however the bytes are split into reads and however many requests are
// pipelined. The server parses requests by itself; framing detects what the server
// accepts although another one could read it differently: a head whose body has two
// possible lengths, and lines that end without a carriage return. The front refuses the
// same.
type framing struct {
	part  framingPart
	heads int // how many heads have ended
	// ambiguous is the number, from 1, of the first head that can be read in two ways,
	// and refusal says why. Nothing is parsed after it, because the connection ends with
	// that request.
	ambiguous int
	refusal   front.Refusal

	length, encoding, isHTTP10 bool   // what the current head has
	flaw                       string // what is wrong with its lines, empty for nothing
	left                       int64  // bytes that are left of the body, or of its chunk

	line [64]byte // the beginning of the current line
	n    int      // how many bytes of line are set
	long bool     // the current line is longer than line
	end  [8]byte  // the last bytes of the current line, right-aligned
}

// framingPart is the part of a request to which the next byte belongs.
type framingPart uint8

const (
	requestLine framingPart = iota
	fieldLine
	fixedBody
	chunkSize
	chunkData
	chunkEnd
	trailerLine
)

// unknownLength is why a request is refused whose end framing has not found.
const unknownLength = "The length of the request's body cannot be told."

// ambiguity returns why a request, counted from 1, can be read in two ways, or nil if it
// cannot.
func (f *framing) ambiguity(number int) *front.Refusal {
	switch {
	case f.ambiguous != 0 && number >= f.ambiguous:
		return &f.refusal
	case number > f.heads: // the server found a head where framing found none
		return &front.Refusal{Status: http.StatusBadRequest, Framing: true, Message: unknownLength}
	}
	return nil
}

// inBody tells whether more of a body is to come.
func (f *framing) inBody() bool { return f.part >= fixedBody }

// write parses the next bytes.
func (f *framing) write(p []byte) {
	for len(p) > 0 && f.ambiguous == 0 {
		if f.part == fixedBody || f.part == chunkData {
			n := min(int64(len(p)), f.left)
			f.left -= n
			p = p[n:]
			f.endBody()
			continue
		}
		stop := bytes.IndexByte(p, '\n')
		if stop < 0 {
			f.extend(p)
			return
		}
		f.extend(p[:stop])
		f.endLine()
		f.n, f.long, f.end = 0, false, [8]byte{}
		p = p[stop+1:]
	}
}

// endBody moves on to the next part if the body or chunk is complete.
func (f *framing) endBody() {
	switch {
	case f.left > 0:
	case f.part == chunkData:
		f.part = chunkEnd
	default:
		f.part = requestLine
	}
}

// extend adds bytes to the current line.
func (f *framing) extend(p []byte) {
	taken := copy(f.line[f.n:], p)
	f.n += taken
	f.long = f.long || taken < len(p)
	if len(p) < len(f.end) {
		copy(f.end[:], f.end[len(p):])
	}
	copy(f.end[max(0, len(f.end)-len(p)):], p[max(0, len(p)-len(f.end)):])
}

// endLine handles a line that is complete.
func (f *framing) endLine() {
	text := bytes.TrimSuffix(f.line[:f.n], []byte("\r"))
	empty := len(text) == 0 && !f.long
	end, isBare := f.end[:len(f.end)-1], f.end[len(f.end)-1] != '\r'
	if isBare && (f.part == requestLine || f.part == fieldLine) {
		f.flaw = cmp.Or(f.flaw, front.BareLineFeed)
		end = f.end[:]
	}
	switch f.part {
	case requestLine:
		if !empty { // the server ignores an empty line before a request, too
			f.length, f.encoding = false, false
			f.isHTTP10 = bytes.HasSuffix(end, []byte("TP/1.0"))
			f.part = fieldLine
		}
	case fieldLine:
		if empty {
			f.endHead()
		} else {
			f.field(text)
		}
	case chunkSize:
		f.beginChunk(text)
	case chunkEnd:
		f.part = chunkSize
		if !empty {
			f.loseTrack()
		}
	case trailerLine:
		if empty {
			f.part = requestLine
		}
		if isBare {
			f.loseTrack()
		}
	}
}

// field handles a header field.
func (f *framing) field(text []byte) {
	switch {
	case hasFieldName(text, "transfer-encoding"):
		f.encoding = true
	case hasFieldName(text, "content-length"):
		if f.length {
			f.flaw = cmp.Or(f.flaw, front.RepeatedLength)
		}
		f.length = true
		value := bytes.Trim(text[len("content-length:"):], " \t")
		size, ok := parseSize(value, 10)
		if f.left = size; !ok || f.long {
			f.loseTrack()
		}
	}
}

// endHead decides from the fields of a head where its body ends.
func (f *framing) endHead() {
	f.heads++
	switch {
	case f.length && f.encoding:
		f.refuse(f.heads, front.Refusal{Framing: true, Message: front.TwoLengths})
	case f.encoding && f.isHTTP10:
		f.refuse(f.heads, front.Refusal{Framing: true, Message: front.ChunkedHTTP10})
	case f.flaw != "":
		f.refuse(f.heads, front.Refusal{Message: f.flaw})
	case f.encoding:
		f.part = chunkSize
	case f.length && f.left > 0:
		f.part = fixedBody
	default:
		f.part = requestLine
	}
}

// beginChunk parses the line before a chunk: its size, and extensions, which are
// ignored. The last chunk is empty.
func (f *framing) beginChunk(text []byte) {
	digits, _, _ := bytes.Cut(text, []byte(";"))
	size, ok := parseSize(bytes.TrimRight(digits, " \t\r"), 16)
	switch f.left = size; {
	case !ok:
		f.loseTrack()
	case size == 0:
		f.part = trailerLine
	default:
		f.part = chunkData
	}
}

// loseTrack notes that the end of the current request cannot be found. The server
// refuses such a request by itself; if it does not, the next request is refused.
func (f *framing) loseTrack() {
	f.refuse(f.heads+1, front.Refusal{Framing: true, Message: unknownLength})
}

// refuse notes that a request, counted from 1, and what follows it is refused.
func (f *framing) refuse(number int, why front.Refusal) {
	why.Status = http.StatusBadRequest
	f.ambiguous, f.refusal = number, why
}

// parseSize parses a number of bytes that consists of digits only.
func parseSize(digits []byte, base int64) (size int64, ok bool) {
	const most = 1 << 58 // larger than any body, and one more digit does not overflow
	for _, c := range digits {
		digit := int64(strings.IndexByte("0123456789abcdef", c|0x20))
		if c <= '9' {
			digit = int64(c) - '0'
		}
		if digit < 0 || digit >= base || size > most {
			return 0, false
		}
		size = size*base + digit
	}
	return size, len(digits) > 0
}

func hasFieldName(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name)
}
