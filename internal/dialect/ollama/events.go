package ollama

import (
	"bytes"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// chatChunks writes the chunks of a chat completion.
type chatChunks struct {
	answer
	model    []byte // the caller's name of the model, as JSON
	logprobs jsonwrite.Writer
}

// eventsChat reads a stream of lines.
func eventsChat(req *schema.Request, body io.Reader) *dialect.Stream {
	return newEvents(req, body, &chatChunks{
		answer: newAnswer(),
		model:  bytes.Clone(req.Body.Root().Get("model").Raw()),
	})
}

func (c *chatChunks) usageChunk(usage schema.Usage) []byte {
	c.out.Begin()
	return c.out.EndWithUsage(unified(usage))
}

func (c *chatChunks) chunk(line *answerLine) ([]byte, error) {
	dialect.DropLarge(&c.inner)
	if err := c.saw(line); err != nil {
		return nil, err
	}
	if !line.done && len(line.text) == 0 && len(line.thinking) == 0 && line.calls.First().Kind() == jsonscan.Absent &&
		line.logprobs.First().Kind() == jsonscan.Absent {
		return nil, nil
	}
	return c.write(line)
}

// write writes the chunk of a line.
func (c *chatChunks) write(line *answerLine) ([]byte, error) {
	first := !c.out.Identified()
	if first {
		c.identify(dialect.ChunkObject, line.created, c.model)
	}
	c.out.Begin()
	c.out.Choice(0, "delta")
	if first {
		c.out.Role()
	}
	if first || len(line.text) > 0 {
		c.out.Content(line.text)
	}
	c.out.Thinking(line.thinking)
	if line.calls.First().Kind() != jsonscan.Absent {
		c.out.Name("tool_calls")
		c.out.Array()
		if err := c.writeCalls(&c.out.Writer, line.calls, true); err != nil {
			return nil, err
		}
		c.out.EndArray()
	}
	c.logprobs.Begin(dialect.Reuse(c.logprobs.Out), nil)
	writeLogprobs(&c.logprobs, line.logprobs)
	reason := ""
	if line.done {
		reason = c.finishReason(line.reason)
	}
	c.out.EndChoice(c.logprobs.Out, reason)
	return c.out.End(), nil
}
