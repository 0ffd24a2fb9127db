package web

import (
	"bytes"
	"strings"
)

// framing follows what a client sends, from the head of a request over its body
// to the next head, however the bytes are cut and whatever was sent ahead. The
// server frames requests by itself; this only finds out what the server does not
// tell: that a head had two lengths for one body.
type framing struct {
	part  framingPart
	heads int // that have ended
	// doubtful is the number, from 1, of the first head whose body may be framed in
	// two ways, and doubt says why. Nothing is followed from there on, because the
	// connection ends with that request.
	doubtful int
	doubt    string

	length, encoding, old bool  // what the present head has; old is HTTP/1.0
	left                  int64 // bytes of the body, or of its chunk

	line [64]byte // the beginning of the present line
	n    int      // how much of it is there
	long bool     // it is longer than that
	end  [8]byte  // its last bytes, of which the very last is at the end
}

// framingPart is the part of a request in which the next byte is.
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

const (
	doubtTwoLengths = "The request has both Content-Length and Transfer-Encoding."
	doubtOldChunks  = "The request has Transfer-Encoding, which HTTP/1.0 does not know."
	doubtLength     = "The length of the request's body cannot be told."
)

// ofRequest says why a request, counted from 1, may be framed in two ways; empty
// means that it may not.
func (f *framing) ofRequest(number int) string {
	switch {
	case f.doubtful != 0 && number >= f.doubtful:
		return f.doubt
	case number > f.heads: // the server sees a head where there is none
		return doubtLength
	}
	return ""
}

// write follows the next bytes.
func (f *framing) write(p []byte) {
	for len(p) > 0 && f.doubtful == 0 {
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

// endBody goes on behind a body or a chunk that is complete.
func (f *framing) endBody() {
	switch {
	case f.left > 0:
	case f.part == chunkData:
		f.part = chunkEnd
	default:
		f.part = requestLine
	}
}

// extend adds bytes to the present line.
func (f *framing) extend(p []byte) {
	taken := copy(f.line[f.n:], p)
	f.n += taken
	f.long = f.long || taken < len(p)
	if f.part != requestLine {
		return
	}
	if len(p) < len(f.end) {
		copy(f.end[:], f.end[len(p):])
	}
	copy(f.end[max(0, len(f.end)-len(p)):], p[max(0, len(p)-len(f.end)):])
}

// endLine looks at a line that is complete.
func (f *framing) endLine() {
	text := bytes.TrimSuffix(f.line[:f.n], []byte("\r"))
	empty := len(text) == 0 && !f.long
	switch f.part {
	case requestLine:
		if !empty { // the server passes over an empty line before a request, too
			f.length, f.encoding = false, false
			f.old = bytes.HasSuffix(bytes.TrimSuffix(f.end[:], []byte("\r")), []byte("TP/1.0"))
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
			f.lose()
		}
	case trailerLine:
		if empty {
			f.part = requestLine
		}
	}
}

// field looks at a field of a head.
func (f *framing) field(text []byte) {
	switch {
	case hasFieldName(text, "transfer-encoding"):
		f.encoding = true
	case hasFieldName(text, "content-length"):
		f.length = true
		value := bytes.Trim(text[len("content-length:"):], " \t")
		size, ok := parseSize(value, 10)
		if f.left = size; !ok || f.long {
			f.lose()
		}
	}
}

func (f *framing) endHead() {
	f.heads++
	switch {
	case f.length && f.encoding:
		f.doubtful, f.doubt = f.heads, doubtTwoLengths
	case f.encoding && f.old:
		f.doubtful, f.doubt = f.heads, doubtOldChunks
	case f.encoding:
		f.part = chunkSize
	case f.length && f.left > 0:
		f.part = fixedBody
	default:
		f.part = requestLine
	}
}

// beginChunk reads the line before a chunk: its size, and extensions that do not
// matter. The last chunk is empty.
func (f *framing) beginChunk(text []byte) {
	digits, _, _ := bytes.Cut(text, []byte(";"))
	size, ok := parseSize(bytes.TrimRight(digits, " \t\r"), 16)
	switch f.left = size; {
	case !ok:
		f.lose()
	case size == 0:
		f.part = trailerLine
	default:
		f.part = chunkData
	}
}

// lose notes that the next head cannot be found. The server refuses such a request
// by itself; if it does not, the next one is refused.
func (f *framing) lose() { f.doubtful, f.doubt = f.heads+1, doubtLength }

// parseSize reads a number of bytes that has nothing but digits.
func parseSize(digits []byte, base int64) (size int64, ok bool) {
	const most = 1 << 58 // beyond any body, and what one more digit makes of it fits
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
