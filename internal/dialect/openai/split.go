package openai

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// splitCompletion makes chunks of a completion that was given whole although a stream was
// asked for. Unknown members are kept: members of the completion go with the first chunk,
// members of a choice with its last.
func splitCompletion(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	if !req.Stream {
		return nil, nil
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true, Deep: true}
	if err := doc.Parse(jsonwrite.Compact(slices.Concat(reply.Segments...))); err != nil {
		return nil, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	choices := root.Get("choices")
	if root.Kind() != jsonscan.Object || choices.Given() && choices.Kind() != jsonscan.Array {
		return nil, dialect.Invalid("it is no completion")
	}
	var s splitter
	s.readHead(root)
	position := 0
	for c := range choices.All() {
		if err := s.addChoice(c, position); err != nil {
			return nil, err
		}
		position++
	}
	if usage := root.Get("usage"); req.IncludeUsage && usage.Kind() == jsonscan.Object {
		s.Begin(nil, s.head)
		s.EndArray()
		s.Copy(usage)
		s.end()
	}
	return dialect.StoredEvents(reply.Usage, s.chunks...), nil
}

// splitter makes the chunks of a completion.
type splitter struct {
	jsonwrite.Writer
	head, others []byte // the beginning of every chunk, and more members of the first one
	chunks       [][]byte
}

// readHead reads the members of chunks besides choices and usage.
func (s *splitter) readHead(root jsonscan.Value) {
	var head, others jsonwrite.Writer
	head.Object()
	head.Raw(chunkObject)
	for m := range root.All() {
		switch string(m.Key()) {
		case "id", "created", "model", "system_fingerprint":
			head.Copy(m)
		case "object", "choices", "usage":
		default:
			others.Copy(m)
		}
	}
	head.Name("choices").Array()
	s.head, s.others = head.Out, others.Out
}

// end ends a chunk.
func (s *splitter) end() {
	s.EndObject()
	s.chunks = append(s.chunks, s.Out)
}

// addChoice adds the two chunks of a choice: its message, and why it ended.
func (s *splitter) addChoice(choice jsonscan.Value, position int) error {
	message, reason := choice.Get("message"), choice.Get("finish_reason")
	if message.Kind() != jsonscan.Object || !dialect.IsFinishReason(reason) {
		return dialect.Invalid("a choice without message or finish_reason")
	}
	index := choice.Get("index").Raw()
	if index == nil {
		index = strconv.AppendInt(nil, int64(position), 10)
	}
	s.Begin(nil, s.head)
	s.Object()
	s.Member("index", index)
	s.Name("delta")
	if err := s.writeDelta(message); err != nil {
		return err
	}
	if logprobs := choice.Get("logprobs"); logprobs.Kind() != jsonscan.Absent {
		s.Copy(logprobs)
	}
	s.Close(`,"finish_reason":null}]`)
	if len(s.others) > 0 {
		s.Raw(s.others)
		s.others = nil
	}
	s.end()
	s.Begin(nil, s.head)
	s.Object()
	s.Member("index", index)
	s.Literal(`"delta":{}`)
	for m := range choice.All() {
		switch string(m.Key()) {
		case "index", "message", "logprobs":
		default:
			s.Copy(m)
		}
	}
	s.Close("}]")
	s.end()
	return nil
}

// writeDelta writes a message as a delta: tool calls get the numbers that chunks have.
func (s *splitter) writeDelta(message jsonscan.Value) error {
	s.Object()
	if message.Get("role").Kind() == jsonscan.Absent {
		s.Raw(assistantRole)
	}
	for m := range message.All() {
		if string(m.Key()) != "tool_calls" || m.Kind() != jsonscan.Array {
			s.Copy(m)
			continue
		}
		s.Name("tool_calls").Array()
		number := int64(0)
		for call := range m.All() {
			if call.Kind() != jsonscan.Object {
				return dialect.Invalid("a tool call that is no object")
			}
			s.Open(`{"index":`).Int(number)
			for member := range call.All() {
				if string(member.Key()) != "index" {
					s.Copy(member)
				}
			}
			s.EndObject()
			number++
		}
		s.EndArray()
	}
	s.EndObject()
	return nil
}
