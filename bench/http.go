package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
)

// message is the head of a request or response. It understands only messages of this
// program's own peers; nothing here is meant for other traffic.
type message struct {
	head    []byte // with the empty line
	length  int    // of the body; -1 if it comes in chunks
	chunked bool
}

var errNoLength = errors.New("a message without a length")

// readHead reads a head. The bytes are good until the next read.
func readHead(r *bufio.Reader) (m message, err error) {
	for want := 1; ; want = r.Buffered() + 1 {
		if _, err := r.Peek(want); err != nil {
			return m, err
		}
		seen, _ := r.Peek(r.Buffered())
		if end := bytes.Index(seen, []byte("\r\n\r\n")); end >= 0 {
			m.head = seen[:end+4]
			break
		}
	}
	m.length = -1
	for rest := m.head; ; {
		line, after, more := bytes.Cut(rest, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if m.length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return m, err
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			m.chunked = true
		}
		if rest = after; !more {
			break
		}
	}
	switch {
	case m.length >= 0 || m.chunked:
	case bytes.HasPrefix(m.head, []byte("GET ")): // gateways check backends with these
		m.length = 0
	default:
		return m, errNoLength
	}
	return m, nil
}

// relay reads the rest of a message after its head was peeked, and writes all of it to w.
// Bytes that arrive together go into one write.
func relay(w io.Writer, r *bufio.Reader, m message) error {
	if !m.chunked {
		for left := len(m.head) + m.length; left > 0; {
			if _, err := r.Peek(1); err != nil {
				return err
			}
			seen, _ := r.Peek(min(left, r.Buffered()))
			if _, err := w.Write(seen); err != nil {
				return err
			}
			left -= len(seen)
			if _, err := r.Discard(len(seen)); err != nil {
				return err
			}
		}
		return nil
	}
	// The peers here end a message with the last chunk and send nothing behind it.
	const end = "\r\n0\r\n\r\n"
	var tail []byte
	for {
		if _, err := r.Peek(1); err != nil {
			return err
		}
		seen, _ := r.Peek(r.Buffered())
		tail = append(tail, seen[max(0, len(seen)-len(end)):]...)
		tail = tail[max(0, len(tail)-len(end)):]
		if _, err := w.Write(seen); err != nil {
			return err
		}
		if _, err := r.Discard(len(seen)); err != nil {
			return err
		}
		if string(tail) == end {
			return nil
		}
	}
}

// serve accepts connections for ever and handles each in a goroutine.
func serve(address string, handle func(net.Conn)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = conn.Close() }()
			handle(conn)
		}()
	}
}

// forwardTo is the bare proxy: it passes requests and answers on as they are, over
// one connection to the backend for each connection of a client.
func forwardTo(backend string) func(net.Conn) {
	return func(client net.Conn) {
		upstream, err := net.Dial("tcp", backend)
		if err != nil {
			return
		}
		defer func() { _ = upstream.Close() }()
		requests, answers := bufio.NewReaderSize(client, 128<<10), bufio.NewReaderSize(upstream, 64<<10)
		for {
			request, err := readHead(requests)
			if err != nil || relay(upstream, requests, request) != nil {
				return
			}
			answer, err := readHead(answers)
			if err != nil || relay(client, answers, answer) != nil {
				return
			}
		}
	}
}
