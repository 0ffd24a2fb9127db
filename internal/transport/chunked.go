package transport

import (
	"bytes"
	"io"
)

const (
	// maxChunkLine bounds a chunk-size line or trailer field. It must leave
	// room in the buffer for reading on.
	maxChunkLine = bufferSize / 2
	// maxOverhead bounds all extensions and trailers of a body together, which are
	// read and not used.
	maxOverhead = 16 << 10
)

// chunkStep is what comes next when no data of a chunk is left.
type chunkStep uint8

const (
	chunkSize chunkStep = iota
	chunkEnd
	chunkTrailer
)

// nextChunked delivers as many chunks as have come and fit, so that a burst of
// events costs one call; it waits only when it has nothing to deliver.
func (r *Response) nextChunked(p []byte) (n int, err error) {
	b := &r.body
	for {
		if b.left > 0 {
			if n == len(p) || n > 0 && r.conn.r == r.conn.w {
				return n, nil
			}
			m, err := r.take(p[n:min(int64(len(p)), int64(n)+b.left)])
			if err != nil {
				return n, unexpectedEOF(err)
			}
			n += m
			b.left -= int64(m)
			if b.left == 0 {
				b.chunk = chunkEnd
			}
			continue
		}
		moved, err := r.step()
		if err != nil {
			return n, err
		}
		if moved {
			continue
		}
		if n > 0 {
			return n, nil
		}
		if err := r.fill(); err != nil {
			return 0, unexpectedEOF(err)
		}
	}
}

// step consumes the next piece of framing; moved is false when it has not come
// whole. io.EOF is the end of the body.
func (r *Response) step() (moved bool, err error) {
	if r.body.done {
		return false, io.EOF
	}
	c, b := r.conn, &r.body
	if b.chunk == chunkEnd {
		return r.endChunk()
	}
	line, ok, err := framingLine(c.buffered())
	if err != nil || !ok {
		return false, err
	}
	switch {
	case b.chunk == chunkSize:
		size, extra, ok := parseChunkSize(line)
		if !ok {
			return false, flaw("malformed chunk size")
		}
		b.overhead += extra
		if b.left = size; size == 0 {
			b.chunk = chunkTrailer
		}
	case len(line) == 0:
		b.done = true
	default:
		b.overhead += len(line) + 2
	}
	if b.overhead > maxOverhead {
		return false, flaw("too many chunk extensions or trailers")
	}
	c.r += len(line) + 2
	if b.done {
		return false, io.EOF
	}
	return true, nil
}

// endChunk consumes the CRLF after the data of a chunk. It looks at each byte
// as soon as it has come: waiting for a line of a chunk that is longer than
// announced could take for ever.
func (r *Response) endChunk() (moved bool, err error) {
	got := r.conn.buffered()
	if !bytes.HasPrefix([]byte("\r\n"), got[:min(len(got), 2)]) {
		return false, flaw("chunk longer than announced")
	}
	if len(got) < 2 {
		return false, nil
	}
	r.conn.r += 2
	r.body.chunk = chunkSize
	return true, nil
}

// framingLine returns the first line of b without its CRLF. A lone CR or LF
// would be read in different ways by others and is refused.
func framingLine(b []byte) (line []byte, ok bool, err error) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		if len(b) >= maxChunkLine {
			return nil, false, flaw("chunk line too long")
		}
		if cr := bytes.IndexByte(b, '\r'); cr >= 0 && cr < len(b)-1 {
			return nil, false, flaw("chunk line with a lone CR")
		}
		return nil, false, nil
	}
	if i >= maxChunkLine {
		return nil, false, flaw("chunk line too long")
	}
	if i == 0 || bytes.IndexByte(b[:i], '\r') != i-1 {
		return nil, false, flaw("chunk line with a lone CR or LF")
	}
	return b[:i-1], true, nil
}

// parseChunkSize parses the hexadecimal size at the start of a line; extra is
// the length of what follows it, blanks or extensions.
func parseChunkSize(line []byte) (size int64, extra int, ok bool) {
	i := 0
	for ; i < len(line); i++ {
		digit := hexDigit(line[i])
		if digit < 0 {
			break
		}
		if i == 15 { // 60 bits: more is no size, and must not overflow
			return 0, 0, false
		}
		size = size<<4 | int64(digit)
	}
	tail := bytes.TrimLeft(line[i:], " \t")
	if i == 0 || len(tail) > 0 && tail[0] != ';' {
		return 0, 0, false
	}
	return size, len(line) - i, true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
