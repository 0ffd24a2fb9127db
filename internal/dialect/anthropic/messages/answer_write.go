package messages

import (
	"bytes"
	"crypto/rand"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// replyMessage writes an answer as a message.
func replyMessage(req *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	choice := answer.First()
	if choice == nil {
		return dialect.Invalid("no choice")
	}
	ask := readWishes(req)
	w := jsonwrite.Writer{Out: reply.Room(answer.Size())}
	beginMessage(&w, answer.ID, ask.model)
	w.Name("content").Array()
	writeThinkingBlock(&w, ask, choice.Thinking, chat.SignatureIn(choice.Extra).Bytes())
	if len(choice.Text) > 0 {
		w.Open(`{"type":"text","text":`).Escaped(choice.Text)
		w.Close(`,"citations":null}`)
	}
	for i := range choice.Calls {
		writeCallBlock(&w, &choice.Calls[i])
	}
	w.EndArray()
	end := ask.ending(choice, len(choice.Calls) > 0, len(choice.Refusal) > 0)
	end.write(&w, choice.Refusal)
	w.Name("usage")
	writeUsage(&w, &answer.Usage)
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// beginMessage writes the beginning of a message.
func beginMessage(w *jsonwrite.Writer, id, model []byte) {
	w.Open(`{"id":"msg_`)
	text := bytes.TrimPrefix(bytes.TrimPrefix(id, []byte(chat.IDPrefix)), []byte("msg_"))
	if len(text) == 0 {
		text = []byte(rand.Text())
	}
	w.Out = append(w.Out, text...)
	w.Close(`","type":"message","role":"assistant","container":null`)
	w.Member("model", model)
}

// writeThinkingBlock writes the model's thoughts, if the client is to get them, with
// the signature of the answer. Without thoughts there is no block, because clients that
// do not ask for any take the first block for the text.
func writeThinkingBlock(w *jsonwrite.Writer, ask *wishes, thought, signature []byte) {
	if ask.hidesThinking || len(thought) == 0 {
		return
	}
	if ask.omitsThinking {
		thought = nil
	}
	w.Open(`{"type":"thinking","thinking":`).Escaped(thought)
	w.Name("signature").Text(markThinking(signature))
	w.EndObject()
}

// writeCallBlock writes a tool call.
func writeCallBlock(w *jsonwrite.Writer, call *chat.ToolCall) {
	w.Open(`{"type":"tool_use","id":`).Text(callID(call))
	w.Name("name").Escaped(call.Name)
	w.Name("input")
	call.WriteObject(w)
	w.Close(`,"caller":{"type":"direct"}}`)
}

// callID returns the id under which the client gets a call.
func callID(call *chat.ToolCall) []byte {
	id := chat.Unescape(call.ID)
	if len(id) == 0 {
		id = []byte("toolu_" + rand.Text())
	}
	return markCall(id, chat.SignatureIn(call.Extra).Bytes())
}

// wishes are the parts of a request that matter for its answer.
type wishes struct {
	model []byte // the client's name of the model, as JSON
	stops [][]byte
	// hidesThinking means that the client does not want thinking, omitsThinking that it
	// wants only the part that must come back.
	hidesThinking, omitsThinking bool
}

// readWishes copies the needed parts, because the request may be gone before its answer
// is.
func readWishes(req *schema.Request) *wishes {
	root := req.Body.Root()
	ask := &wishes{model: bytes.Clone(req.ModelJSON())}
	for s := range root.Get("stop_sequences").All() {
		ask.stops = append(ask.stops, bytes.Clone(s.Text()))
	}
	thinking := root.Get("thinking")
	ask.hidesThinking = thinking.Is("type", "disabled")
	ask.omitsThinking = thinking.Is("display", "omitted")
	return ask
}

// ending is why an answer ended.
type ending struct {
	reason string
	// stop is the stop sequence that ended it, if the backend told which.
	stop    []byte
	refused bool
}

// ending returns why a choice ended.
func (ask *wishes) ending(choice *chat.Choice, called, refused bool) ending {
	switch reason := choice.Finish; {
	case reason == chat.Length:
		return ending{reason: "max_tokens"}
	case reason == chat.ContentFilter || refused:
		return ending{reason: "refusal", refused: true}
	case called, reason == chat.ToolCalls, reason == chat.FunctionCall:
		return ending{reason: "tool_use"}
	}
	for _, stop := range ask.stops {
		if len(choice.StopSequence) > 0 && bytes.Equal(stop, choice.StopSequence) {
			return ending{reason: "stop_sequence", stop: stop}
		}
	}
	return ending{reason: "end_turn"}
}

// write writes the members that say why the answer ended.
func (e ending) write(w *jsonwrite.Writer, explanation []byte) {
	w.Name("stop_reason").Plain(e.reason)
	w.Name("stop_sequence")
	if e.stop != nil {
		w.Text(e.stop)
	} else {
		w.Literal("null")
	}
	if !e.refused {
		w.Literal(`"stop_details":null`)
		return
	}
	w.Open(`"stop_details":{"type":"refusal","category":null,"explanation":`).EscapedOrNull(explanation)
	w.EndObject()
}

// writeUsage writes the usage of a message, which counts the cached tokens of the
// prompt apart.
func writeUsage(w *jsonwrite.Writer, u *chat.Usage) {
	cached, thinking := u.Parts()
	w.Open(`{"input_tokens":`).Int(u.Prompt - cached)
	w.Open(`"cache_creation_input_tokens":0,"cache_read_input_tokens":`).Int(cached)
	w.Name("output_tokens").Int(u.Completion)
	w.Open(`"output_tokens_details":{"thinking_tokens":`).Int(thinking)
	w.Close(`},"cache_creation":null,"server_tool_use":null,"service_tier":null,"inference_geo":null}`)
}
