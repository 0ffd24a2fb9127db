package fleet

import (
	"encoding/binary"
	"errors"
	"math"
)

// A message carries the news of one gateway to the others:
//
//	version (1 byte)
//	number of instances, and for each: identity (8 bytes), pending tokens, pending calls
//	prompts until the end, the newest first: number of the instance above, how many blocks
//	are the same as those of the prompt before, how many follow, and these (5 bytes each)
//
// with numbers as in encoding/binary's Uvarint.
const (
	version = 1
	// maxRead is the limit of blocks that are read from a message. It is needed because
	// a message repeats the common start of prompts with few bytes.
	maxRead = 64 << 10
)

// ErrMessage says that the bytes from another gateway are no message of a fleet.
var ErrMessage = errors.New("not a message of a fleet that this version reads")

// report holds the pending work of a gateway at an instance.
type report struct {
	instance uint64
	tokens   float64
	calls    int
}

// appendPrompt writes a prompt behind another one.
func appendPrompt(message []byte, instance int, prompt, before []Block) []byte {
	same := 0
	for same < min(len(prompt), len(before)) && prompt[same] == before[same] {
		same++
	}
	message = binary.AppendUvarint(message, uint64(instance))
	message = binary.AppendUvarint(message, uint64(same))
	message = binary.AppendUvarint(message, uint64(len(prompt)-same))
	for _, block := range prompt[same:] {
		message = append(message, byte(block>>32), byte(block>>24), byte(block>>16), byte(block>>8), byte(block))
	}
	return message
}

// imported is a prompt of a message.
type imported struct {
	instance int
	blocks   []Block
}

// parse reads a message.
func parse(message []byte) (pending []report, prompts []imported, err error) {
	r := reader{message: message}
	if r.byte() != version {
		return nil, nil, ErrMessage
	}
	for count := r.number(uint64(len(message))); count > 0 && !r.failed; count-- {
		pending = append(pending, report{r.identity(), float64(r.number(mostTokens)), int(r.number(mostRequests))})
	}
	total := 0
	var before []Block
	for len(r.message) > 0 && !r.failed {
		p := imported{instance: int(r.number(math.MaxInt32))}
		same := int(r.number(uint64(len(before))))
		fresh := int(r.number(uint64(len(r.message) / blockBytes)))
		if total += same + fresh; same+fresh > maxDepth || total > maxRead || p.instance >= len(pending) {
			return nil, nil, ErrMessage
		}
		p.blocks = append(make([]Block, 0, same+fresh), before[:same]...)
		for range fresh {
			p.blocks = append(p.blocks, r.block())
		}
		before = p.blocks
		prompts = append(prompts, p)
	}
	if r.failed {
		return nil, nil, ErrMessage
	}
	return pending, prompts, nil
}

// reader takes a message apart. After a failure everything is zero.
type reader struct {
	message []byte
	failed  bool
}

func (r *reader) take(n int) []byte {
	if r.failed || len(r.message) < n {
		r.failed = true
		return make([]byte, n)
	}
	taken := r.message[:n]
	r.message = r.message[n:]
	return taken
}

func (r *reader) byte() byte       { return r.take(1)[0] }
func (r *reader) identity() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) block() Block {
	b := r.take(blockBytes)
	return Block(b[0])<<32 | Block(binary.BigEndian.Uint32(b[1:]))
}

// number returns a number up to a limit.
func (r *reader) number(most uint64) uint64 {
	n, length := binary.Uvarint(r.message)
	if length <= 0 || n > most || r.failed {
		r.failed = true
		return 0
	}
	r.message = r.message[length:]
	return n
}
