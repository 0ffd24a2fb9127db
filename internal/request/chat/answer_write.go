package chat

import (
	"crypto/rand"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Write writes the answer as a completion in OpenAI's shape. The model is the client's name
// of it, as JSON.
func (a *Answer) Write(w *jsonwrite.Writer, model []byte) {
	a.WriteHead(w, "chat.completion", model)
	for i := range a.Choices {
		c := &a.Choices[i]
		c.begin(w, "message")
		w.Literal(`"role":"assistant"`)
		w.Name("content")
		if len(c.Text) == 0 && (len(c.Calls) > 0 || len(c.Refusal) > 0) {
			w.Literal("null")
		} else {
			w.Escaped(c.Text)
		}
		w.Name("refusal").EscapedOrNull(c.Refusal)
		c.writeExtras(w, false)
		c.end(w)
	}
	a.end(w)
}

// WriteChunk writes a delta as a chunk of a completion behind its head.
func (a *Answer) WriteChunk(w *jsonwrite.Writer) {
	for i := range a.Choices {
		c := &a.Choices[i]
		c.begin(w, "delta")
		if c.Begins {
			w.Literal(`"role":"assistant"`)
		}
		w.EscapedMember("content", c.Text)
		if c.HasNoText {
			w.Literal(`"content":null`)
		}
		if len(c.Refusal) > 0 {
			w.Name("refusal").Escaped(c.Refusal)
		}
		c.writeExtras(w, true)
		c.end(w)
	}
	a.end(w)
}

// end ends a completion or a chunk behind its choices.
func (a *Answer) end(w *jsonwrite.Writer) {
	w.EndArray()
	if a.Usage.Known {
		w.Name("usage")
		a.Usage.Write(w)
	}
	w.EndObject()
}

// Size returns about how long the answer is when it is written.
func (a *Answer) Size() int {
	size := 512
	for i := range a.Choices {
		c := &a.Choices[i]
		size += 256 + len(c.Text) + 2*len(c.Thinking) + len(c.Refusal) + len(c.Logprobs) + len(c.Extra)
		for j := range c.Calls {
			call := &c.Calls[j]
			size += 96 + len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Extra)
		}
		for _, list := range [...][][]byte{c.Images, c.Blocks, c.Details} {
			for _, element := range list {
				size += 64 + len(element)
			}
		}
	}
	return size
}

// WriteHead writes the beginning of a completion, or of every chunk of it, up to its
// choices. An id is made for one that has none.
func (a *Answer) WriteHead(w *jsonwrite.Writer, object string, model []byte) {
	w.Open(`{"id":`)
	if len(a.ID) > 0 {
		w.Escaped(a.ID)
	} else {
		w.Plain(IDPrefix + rand.Text())
	}
	w.Name("object").Plain(object)
	w.Name("created")
	if a.Created > 0 {
		w.Int(a.Created)
	} else {
		w.Int(time.Now().Unix())
	}
	w.Member("model", model)
	w.Literal(UnknownFingerprint)
	w.Name("choices").Array()
}

// UnknownFingerprint is the member of an answer that names the configuration of its backend,
// where the backend does not tell. It is a text because OpenAI's schema does not allow null.
const UnknownFingerprint = `"system_fingerprint":"fp_unknown"`

// IDPrefix begins the ids of answers.
const IDPrefix = "chatcmpl-"

// begin begins a choice up to the first member of its message or delta.
func (c *Choice) begin(w *jsonwrite.Writer, said string) {
	w.Open(`{"index":`).Int(c.Index)
	w.Name(said).Object()
}

// end ends a choice behind its message or delta.
func (c *Choice) end(w *jsonwrite.Writer) {
	w.EndObject()
	if len(c.Logprobs) > 0 {
		w.Open(`"logprobs":{"content":[`).Raw(c.Logprobs)
		w.Close(`],"refusal":null}`)
	} else {
		w.Literal(`"logprobs":null`)
	}
	if c.Finish == "" {
		w.Literal(`"finish_reason":null`)
	} else {
		w.Name("finish_reason").Plain(string(c.Finish))
	}
	w.EndObject()
}

// writeExtras writes the members of a message or delta besides texts for the user.
// Clients know the model's thinking under two names. The calls of a delta are numbered.
func (c *Choice) writeExtras(w *jsonwrite.Writer, numbered bool) {
	if len(c.Thinking) > 0 {
		w.Name("reasoning_content").Escaped(c.Thinking)
		w.Name("reasoning").Escaped(c.Thinking)
	}
	if len(c.Blocks) > 0 {
		w.Name("thinking_blocks").Array()
		for _, block := range c.Blocks {
			w.Raw(block)
		}
		w.EndArray()
	}
	writeCalls(w, c.Calls, numbered)
	if len(c.Images) > 0 {
		w.Name("images").Array()
		for _, address := range c.Images {
			w.Open(`{"type":"image_url","image_url":{"url":`).Escaped(address)
			w.Close("}}")
		}
		w.EndArray()
	}
	w.Given("extra_content", c.Extra)
}

// Write writes the usage of a completion.
func (u *Usage) Write(w *jsonwrite.Writer) {
	w.Open(`{"prompt_tokens":`).Int(u.Prompt)
	w.Name("completion_tokens").Int(u.Completion)
	w.Name("total_tokens").Int(u.Total)
	writeDetail(w, `"prompt_tokens_details":{"cached_tokens":`, u.Cached)
	writeDetail(w, `"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
	w.EndObject()
}

func writeDetail(w *jsonwrite.Writer, begin string, n int64) {
	if n >= 0 {
		w.Open(begin).Int(n)
		w.EndObject()
	}
}
