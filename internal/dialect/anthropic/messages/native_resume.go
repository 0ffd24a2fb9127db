package messages

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// openBlocks follows which block of a message that is passed on is open.
type openBlocks struct {
	open  blockKind
	index int64 // of the block that is open or will be next
	// isForeign says that a block came which this package cannot write: nobody else can
	// go on with the message.
	isForeign bool
}

// start takes note of a block that begins.
func (b *openBlocks) start(event jsonscan.Value) {
	b.index, _ = event.Get("index").Int()
	switch string(event.Get("content_block").TextOf("type")) {
	case "text":
		b.open = textBlock
	case "thinking":
		b.open = thinkingBlock
	default:
		b.isForeign = true
	}
}

// stop takes note of the end of the open block.
func (b *openBlocks) stop() {
	b.open = noBlock
	b.index++
}

// CanResume implements dialect.Resumer.
func (e *passedEvents) CanResume() bool {
	return e.begun && !e.IsComplete() && !e.Finished && !e.blocks.isForeign
}

// Resume implements dialect.Resumer. The rest is written here: the events of another
// answer have a start and numbers of their own.
func (e *passedEvents) Resume(req *schema.Request, from dialect.Deltas) {
	onward, isResumed := e.Onward.(*clientEvents)
	if !isResumed {
		onward = &clientEvents{ask: readWishes(req), started: true, open: e.blocks.open, index: e.blocks.index}
		e.Onward = onward
	}
	onward.Resume(req, from)
}

// Record makes a transcript of the texts.
func (e *passedEvents) Record(to *chat.Transcript) { e.sent = to }

// record adds a piece of a block to the transcript.
func (e *passedEvents) record(piece jsonscan.Value) {
	switch {
	case e.sent == nil:
	case piece.Is("type", "text_delta"):
		e.sent.Add(chat.TextIn(piece, "text"))
	default:
		e.sent.Forbid("it has more than text")
	}
}

// recordStart adds the beginning of a block to the transcript.
func (e *passedEvents) recordStart(block jsonscan.Value) {
	switch {
	case e.sent == nil:
	case e.blocks.index > 0:
		e.sent.Forbid("it has several blocks")
	case block.Is("type", "text"):
		e.sent.Add(chat.TextIn(block, "text"))
	default:
		e.sent.Forbid("it has more than text")
	}
}
