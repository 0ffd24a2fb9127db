package fleet

import (
	"encoding/binary"

	"github.com/minio/highwayhash"
)

// Block names a prompt from its first byte to the end of one of its blocks: equal blocks
// have equal text before them. It has 40 bits of a keyed hash. These are few enough to send
// blocks to other gateways cheaply, and enough that less than one in a million lookups in a
// full index finds a wrong block. Such a mistake costs an estimate, no more.
type Block uint64

const (
	blockBits  = 40
	blockBytes = blockBits / 8
)

// Blocks grow along the prompt: firstBlock bytes each, twice as many after every
// blocksPerStep blocks. So the length of a common beginning is known to a sixteenth, and the
// longest prompt has few blocks: 59 for 100 KB, 112 for a megabyte.
const (
	firstBlock    = 512
	blocksPerStep = 16
	maxDepth      = 24 * blocksPerStep // of a prompt with 128 GB
)

// blockSize returns the bytes of the block at a depth, which is 0 for the first.
func blockSize(depth int) int64 { return firstBlock << (depth / blocksPerStep) }

// blocksEnd returns the bytes of the first n blocks.
func blocksEnd(n int) int64 {
	steps, rest := n/blocksPerStep, n%blocksPerStep
	return firstBlock * (blocksPerStep*(1<<steps-1) + int64(rest)<<steps)
}

// Prompt is the fleet's view of the text of a request: its length and its blocks, not the
// text. It is fed with the pieces of the text in the order in which the model reads them
// (tools and system prompt first), without copying them, and can be used again.
type Prompt struct {
	secret *Secret
	digest *highwayhash.Digest64
	blocks []Block
	size   int64
	edge   int64 // where the block ends that is being read
	hint   Block // of the conversation; 0 is none
	scope  string
}

// NewPrompt returns an empty prompt.
func NewPrompt(secret *Secret) *Prompt {
	digest, err := highwayhash.NewDigest64(secret[:])
	if err != nil {
		panic(err) // the type of the secret gives it the right length
	}
	p := &Prompt{secret: secret, digest: digest}
	p.Reset("")
	return p
}

// Reset empties the prompt. Prompts of different scopes have no block in common, which
// keeps tenants apart: they must not learn from response times what others asked.
func (p *Prompt) Reset(scope string) {
	p.digest.Reset()
	p.blocks, p.size, p.edge, p.hint, p.scope = p.blocks[:0], 0, blockSize(0), 0, scope
	if scope != "" {
		p.write([]byte(scope))
		p.write([]byte{markScope})
	}
}

// Marks are bytes that no UTF-8 text has. They separate neighbours in the stream that
// is hashed.
const (
	markScope = 0xff
	markPart  = 0xfe
	markKind  = 0xfd
	markHint  = 0xfc
)

// Part begins a part, such as a message; the kind is its role.
func (p *Prompt) Part(kind string) {
	var head [32]byte
	text := append(head[:0], markPart)
	text = append(text, kind...)
	p.Text(append(text, markKind))
}

// Text adds a piece of text. It does not matter how a text is cut into pieces.
func (p *Prompt) Text(piece []byte) {
	for int64(len(piece)) >= p.edge-p.size {
		n := p.edge - p.size
		p.write(piece[:n])
		piece, p.size = piece[n:], p.edge
		p.blocks = append(p.blocks, shorten(p.digest.Sum64()))
		p.edge += blockSize(len(p.blocks))
	}
	p.write(piece)
	p.size += int64(len(piece))
}

// Data adds content other than text, such as an image, by a hash of its bytes. It counts
// like a text of the given size: a part of a prompt has the same share of the bytes as of
// the work.
func (p *Prompt) Data(data []byte, size int) {
	var filled [64]byte
	sum := highwayhash.Sum64(data, p.secret[:])
	for n := 0; n < len(filled); n += 8 {
		binary.LittleEndian.PutUint64(filled[n:], sum)
	}
	for ; size > 0; size -= len(filled) {
		p.Text(filled[:min(size, len(filled))])
	}
}

func (p *Prompt) write(piece []byte) {
	_, _ = p.digest.Write(piece) // a hash takes everything
}

func shorten(sum uint64) Block { return Block(sum >> (64 - blockBits)) }

// Hint names the conversation that the request belongs to, by a key that its client sent.
// It counts only where the blocks are known nowhere.
func (p *Prompt) Hint(key string) {
	text := make([]byte, 0, 2+len(p.scope)+len(key))
	text = append(text, markHint)
	text = append(text, p.scope...)
	text = append(text, markHint)
	p.hint = shorten(highwayhash.Sum64(append(text, key...), p.secret[:]))
}

// Size returns the bytes that were read.
func (p *Prompt) Size() int64 { return p.size }
