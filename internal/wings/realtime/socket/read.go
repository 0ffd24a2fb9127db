package socket

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/serve/front"
)

const (
	// firstBuffer is the first piece of memory for a message.
	firstBuffer = 4 << 10
	// freeMessage is the size of the largest message that takes only its length from the
	// memory for bodies: parsing a small one needs little memory, which is used again.
	freeMessage = 64 << 10
)

// readMessage reads a message into memory that reserve has taken before, in steps: a
// message takes memory only for the bytes that have arrived. It calls arrived with the
// length so far.
func readMessage(from io.Reader, reserve func(bytes int) error, arrived func(bytes, all int)) ([]byte, error) {
	if err := reserve(firstBuffer); err != nil {
		return nil, err
	}
	buffer := make([]byte, 0, firstBuffer)
	for {
		if len(buffer) == cap(buffer) {
			if err := reserve(cap(buffer)); err != nil {
				return nil, err
			}
			buffer = append(make([]byte, 0, 2*cap(buffer)), buffer...)
		}
		n, err := from.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		arrived(n, len(buffer))
		switch {
		case errors.Is(err, io.EOF):
			return buffer, nil
		case err != nil:
			return nil, err
		}
	}
}

// readClient returns the next message of a client. A message that is no text, or does not
// arrive in time, ends the connection. Arriving bytes are added to heard.
func readClient(ctx context.Context, client *websocket.Conn, reserve func(bytes int) error, heard *atomic.Int64,
	end func(websocket.StatusCode, string)) ([]byte, error) {
	kind, from, err := client.Reader(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		end(websocket.StatusUnsupportedData, "messages are texts")
		return nil, errors.New("a message is no text")
	}
	began := time.Now()
	stalled := time.AfterFunc(front.Allowance(0),
		func() { end(websocket.StatusPolicyViolation, "a message did not arrive in time") })
	defer stalled.Stop()
	return readMessage(from, reserve, func(bytes, all int) {
		heard.Add(int64(bytes))
		stalled.Reset(time.Until(began.Add(front.Allowance(int64(all)))))
	})
}

// leaseFor returns a lease of the memory for bodies for a visitor.
func (d *Doors) leaseFor(who visitor) memory.Lease {
	key := ""
	if who.grant != nil {
		key = who.grant.ID
	}
	return d.options.Memory.Bodies().Lease(key, who.addr)
}

// takeFrom returns how messages take memory from a lease.
func takeFrom(lease *memory.Lease) func(bytes int) error {
	return func(bytes int) error {
		if lease.Take(int64(bytes)) != memory.Granted {
			return overloaded(say.New("socket.memory"))
		}
		return nil
	}
}

// parser parses the messages of one direction of a connection.
type parser struct {
	small     jsonscan.Document // is used again
	anyKeys   bool
	lease     memory.Lease // the memory of the message that is passed on
	takesFrom func(bytes int) error
}

// parse parses a message. It does not keep the memory of a large one.
func (p *parser) parse(text []byte) (*jsonscan.Document, error) {
	doc := &p.small
	if len(text) > freeMessage {
		doc = &jsonscan.Document{Reserve: p.takesFrom}
	}
	doc.AllowDuplicateKeys = p.anyKeys
	return doc, doc.Parse(text)
}
