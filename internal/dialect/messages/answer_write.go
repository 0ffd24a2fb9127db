package messages

import (
	"bytes"
	"crypto/rand"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// replyMessage turns a completion into a message.
func replyMessage(req *schema.Request, reply *dialect.Reply) error {
	root, err := reply.Unified()
	if err != nil {
		return err
	}
	choice := root.Get("choices").First()
	message := choice.Get("message")
	ask := readWishes(req)

	w := jsonwrite.Writer{Out: reply.Room(len(root.Raw()) + 512)}
	beginMessage(&w, root.Get("id"), ask.model)
	w.Name("content")
	w.Array()
	writeThinkingBlock(&w, ask, dialect.ThinkingIn(message), signatureText(message))
	if text := dialect.ContentIn(message); len(text) > 0 {
		dialect.WriteTextPart(&w, text)
	}
	called := false
	for call := message.Get("tool_calls").First(); call.Kind() != jsonscan.Absent; call = call.Next() {
		called = true
		writeCallBlock(&w, call)
	}
	w.EndArray()
	refusal := message.Get("refusal")
	end := ask.ending(choice, called, len(dialect.RawText(refusal)) > 0)
	end.write(&w, dialect.RawText(refusal))
	w.Name("usage")
	readCounts(root.Get("usage")).write(&w)
	w.EndObject()
	reply.Set(w.Out)
	reply.ContentType = ""
	return nil
}

// beginMessage writes the beginning of a message.
func beginMessage(w *jsonwrite.Writer, id jsonscan.Value, model []byte) {
	w.Open(`{"id":"msg_`)
	text := bytes.TrimPrefix(bytes.TrimPrefix(dialect.RawText(id), []byte("chatcmpl-")), []byte("msg_"))
	if len(text) == 0 {
		text = []byte(rand.Text())
	}
	w.Out = append(w.Out, text...)
	w.Close(`","type":"message","role":"assistant"`)
	w.Member("model", model)
}

// writeThinkingBlock writes what the model thought, if the client is to get it, with
// the signature of the answer. Without thoughts there is no block, because clients
// that do not ask for any take the first block for the text.
func writeThinkingBlock(w *jsonwrite.Writer, ask *wishes, thought, signature []byte) {
	if ask.hidesThinking || len(thought) == 0 {
		return
	}
	if ask.omitsThinking {
		thought = nil
	}
	w.Open(`{"type":"thinking","thinking":`)
	w.Escaped(thought)
	w.Name("signature")
	w.Text(markThinking(signature))
	w.EndObject()
}

// writeCallBlock writes a tool call.
func writeCallBlock(w *jsonwrite.Writer, call jsonscan.Value) {
	function := call.Get("function")
	w.Open(`{"type":"tool_use","id":`)
	w.Text(callID(call))
	w.Name("name")
	w.Escaped(dialect.RawText(function.Get("name")))
	w.Name("input")
	w.Raw(inputOf(function.Get("arguments")))
	w.EndObject()
}

// callID returns the id under which the client gets a call.
func callID(call jsonscan.Value) []byte {
	id := call.Get("id").Text()
	if len(id) == 0 {
		id = []byte("toolu_" + rand.Text())
	}
	return markCall(id, signatureText(call))
}

// signatureText returns the signature of a message, delta or call that must come back.
func signatureText(v jsonscan.Value) []byte {
	return v.Get("extra_content").Get("google").Get("thought_signature").Text()
}

// inputOf returns the input of a call, which is an object here. A text that is none,
// such as one that a limit has cut, is kept under the name that the provider's
// documentation recommends.
func inputOf(arguments jsonscan.Value) []byte {
	text := bytes.TrimSpace(arguments.Text())
	if arguments.Kind() == jsonscan.Object {
		text = arguments.Raw()
	}
	if len(text) == 0 || string(text) == "null" {
		return []byte("{}")
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(text) == nil && doc.Root().Kind() == jsonscan.Object {
		return text
	}
	var w jsonwrite.Writer
	w.Open(`{"INVALID_JSON":`)
	w.Text(text)
	w.EndObject()
	return w.Out
}

// wishes are what of a request matters for its answer.
type wishes struct {
	model []byte // the client's name of the model, as JSON
	stops [][]byte
	// hidesThinking means that the client does not want thinking, omitsThinking that
	// it wants only what must come back.
	hidesThinking, omitsThinking bool
}

// readWishes copies what is needed, because the request may be gone before its answer
// is.
func readWishes(req *schema.Request) *wishes {
	root := req.Source.Body.Root()
	ask := &wishes{model: bytes.Clone(root.Get("model").Raw())}
	for s := root.Get("stop_sequences").First(); s.Kind() != jsonscan.Absent; s = s.Next() {
		ask.stops = append(ask.stops, bytes.Clone(s.Text()))
	}
	thinking := root.Get("thinking")
	ask.hidesThinking = string(thinking.Get("type").Text()) == "disabled"
	ask.omitsThinking = string(thinking.Get("display").Text()) == "omitted"
	return ask
}

// ending is why an answer ended.
type ending struct {
	reason string
	// stop is the stop sequence that ended it, if the backend told which.
	stop    []byte
	refused bool
}

// ending reads why a choice ended. Some backends tell which of the stop sequences it
// was.
func (ask *wishes) ending(choice jsonscan.Value, called, refused bool) ending {
	switch reason := string(choice.Get("finish_reason").Text()); {
	case reason == "length":
		return ending{reason: "max_tokens"}
	case reason == "content_filter" || refused:
		return ending{reason: "refusal", refused: true}
	case called, reason == "tool_calls", reason == "function_call":
		return ending{reason: "tool_use"}
	}
	for _, name := range []string{"stop_reason", "matched_stop"} {
		text := choice.Get(name).Text()
		for _, stop := range ask.stops {
			if len(text) > 0 && bytes.Equal(stop, text) {
				return ending{reason: "stop_sequence", stop: stop}
			}
		}
	}
	return ending{reason: "end_turn"}
}

// write writes the members that say why the answer ended.
func (e ending) write(w *jsonwrite.Writer, explanation []byte) {
	w.Name("stop_reason")
	w.Plain(e.reason)
	w.Name("stop_sequence")
	if e.stop != nil {
		w.Text(e.stop)
	} else {
		w.Literal("null")
	}
	if e.refused {
		w.Open(`"stop_details":{"type":"refusal","category":null,"explanation":`)
		if len(explanation) > 0 {
			w.Escaped(explanation)
		} else {
			w.Literal("null")
		}
		w.EndObject()
	}
}

// counts are the tokens of an answer as this dialect counts them: those of the prompt
// that came from a cache are apart.
type counts struct{ input, cached, output, thinking int64 }

// readCounts reads the usage of a completion.
func readCounts(usage jsonscan.Value) counts {
	u := dialect.ReadUsage(usage)
	return counts{input: u.Prompt - u.Cached, cached: u.Cached, output: u.Completion, thinking: u.Reasoning}
}

func (c counts) write(w *jsonwrite.Writer) {
	w.Open(`{"input_tokens":`)
	w.Int(c.input)
	w.Open(`"cache_creation_input_tokens":0,"cache_read_input_tokens":`)
	w.Int(c.cached)
	w.Name("output_tokens")
	w.Int(c.output)
	if c.thinking > 0 {
		w.Open(`"output_tokens_details":{"thinking_tokens":`)
		w.Int(c.thinking)
		w.EndObject()
	}
	w.EndObject()
}
