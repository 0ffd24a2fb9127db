// Package talk measures the conversation that a backend keeps for a session of the Realtime API, as
// far as it decides the cost of the next response.
package talk

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Talk is a conversation: the model reads all of it again for each response. It has lengths, and
// none of the words. The zero Talk is an empty conversation.
type Talk struct {
	// read is the number of tokens in the conversation by the last report, and added the
	// length in bytes of everything added since.
	read  int64
	added int
	// instructions and tools are the lengths of the session's instructions and tools.
	// inRead bytes of them are counted in read already.
	instructions, tools, inRead int
	// most is how many tokens a response may have, in the session's JSON; nil while the
	// session sets no limit.
	most []byte
	// Answers reports whether the backend makes a response by itself when speech has ended.
	Answers bool
}

// longestAudio bounds the settings of the sound that are read.
const longestAudio = 64 << 10

// longestLimit is more than a number or a word for a limit has.
const longestLimit = 32

// The names of the limit of a response: the present one, and the one of earlier sessions.
var limitNames = [...]string{"max_output_tokens", "max_response_output_tokens"}

// Set takes over the settings of a session, from its client or from the backend.
func (t *Talk) Set(session jsonscan.Value) {
	if v := session.Get("instructions"); v.Kind() != jsonscan.Absent {
		t.instructions = estimate.Length(v.Raw(), false)
	}
	if v := session.Get("tools"); v.Kind() != jsonscan.Absent {
		t.tools = estimate.Length(v.Raw(), true)
	}
	detection := session.Get("turn_detection")
	if detection.Kind() == jsonscan.Absent {
		audio, deep := session.Get("audio").Raw(), jsonscan.Document{Deep: true, AllowDuplicateKeys: true}
		if len(audio) <= longestAudio && deep.Parse(audio) == nil {
			detection = deep.Root().Get("input").Get("turn_detection")
		}
	}
	if detection.Kind() != jsonscan.Absent {
		t.Answers = detection.Given() && detection.Get("create_response").Kind() != jsonscan.False
	}
	for _, name := range limitNames {
		if v := session.Get(name); v.Kind() != jsonscan.Absent && len(v.Raw()) <= longestLimit {
			t.most = bytes.Clone(v.Raw())
		}
	}
}

// Add notes an item that was added to the conversation.
func (t *Talk) Add(item jsonscan.Value) { t.added += estimate.Length(item.Raw(), false) }

// AddSound notes a sound that was added to the conversation.
func (t *Talk) AddSound() { t.added += estimate.FileLength }

func (t *Talk) setup() int { return t.instructions + t.tools }

// tokens returns the number of tokens in the conversation, with the settings of the
// session.
func (t *Talk) tokens() int64 {
	return t.read + estimate.TokensOf(t.added+max(t.setup()-t.inRead, 0))
}

// Remembered returns how many tokens a model reads for a response in addition to the message that
// asks for it. A response with an input of its own is apart from the conversation, unless
// it refers to items of it.
func (t *Talk) Remembered(asked jsonscan.Value) int64 {
	input := asked.Get("input")
	if input.Kind() != jsonscan.Array || bytes.Contains(input.Raw(), []byte(`"item_reference"`)) {
		return t.tokens()
	}
	return estimate.TokensOf(t.setup())
}

// Body returns the wish for a response as the body of a request: its cost is estimated like
// any other. Limits that the message leaves out come from the session.
func (t *Talk) Body(asked jsonscan.Value) []byte {
	var w jsonwrite.Writer
	w.Object()
	isLimited := false
	for m := asked.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch name := string(m.Key()); name {
		case limitNames[0], limitNames[1]:
			isLimited = isLimited || m.Given()
			w.Copy(m)
		case "instructions", "tools", "input", "prompt":
			w.Copy(m)
		}
	}
	if !isLimited && t.most != nil {
		w.Member(limitNames[0], t.most)
	}
	w.EndObject()
	return w.Out
}

// Part is the place of a response in the conversation.
type Part struct {
	// isPlain says that it reads the conversation, and joins that its output comes to it.
	isPlain, joins bool
	// added and setup are the lengths that the conversation had when the response began.
	added, setup int
}

// Begin returns the place in the conversation of a response that is asked for.
func (t *Talk) Begin(asked jsonscan.Value) Part {
	joins := string(asked.Get("conversation").Text()) != "none"
	return Part{isPlain: joins && asked.Get("input").Kind() != jsonscan.Array, joins: joins, added: t.added,
		setup: t.setup()}
}

// End adds the output of a response, with the usage that the backend reports.
func (t *Talk) End(p Part, usage schema.Usage, output jsonscan.Value) {
	switch {
	case p.isPlain && usage.Known:
		t.read, t.added, t.inRead = usage.Prompt+usage.Completion, max(t.added-p.added, 0), p.setup
	case p.joins && usage.Known:
		t.read += usage.Completion
	case p.joins:
		t.Add(output)
	}
}
