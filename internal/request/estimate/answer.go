package estimate

import (
	"bytes"
	"encoding/base64"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Answer estimates the tokens of an answer from the JSON texts that a client is sent:
// from the members that hold the model's words. The zero Answer is empty.
type Answer struct {
	// pieces counts the texts that came piece by piece, or all of an answer that came
	// whole. final counts the repetition of them in the last event of a response.
	pieces, final texts
	// sound is how many bytes of sound in base64 came.
	sound int
}

// texts counts texts.
type texts struct {
	number int
	bytes  int
}

// IsWritten reports whether a model writes the answers of a door. Other answers have nothing that
// counts as tokens.
func IsWritten(door schema.Door) bool {
	return door.Service() == schema.Chat && door != schema.DoorModerations
}

// Add adds a part of an answer that is sent through a door.
func (a *Answer) Add(door schema.Door, part []byte) {
	switch {
	case !IsWritten(door):
	case door == schema.DoorResponses && bytes.HasPrefix(part, eventName):
		a.addResponseEvents(part)
	case door == schema.DoorRealtime && isSound(part):
		a.sound += len(part)
	case door == schema.DoorOllamaGenerate:
		a.pieces.addNamed(part, []byte("response"))
	case door == schema.DoorCompact:
		a.pieces.addSummary(part)
	default:
		a.pieces.add(part)
	}
}

// addSummary adds the model's words in a compacted conversation: the summary, which is in
// base64 behind a few characters, and comes last. The client itself sent all else.
func (t *texts) addSummary(part []byte) {
	const name, prefix = `"encrypted_content":"`, len("pb1.")
	at := bytes.LastIndex(part, []byte(name))
	if at < 0 {
		return
	}
	part = part[at+len(name):]
	sealed := part[min(prefix, len(part)):max(prefix, jsonscan.EndOfText(part))]
	text, err := base64.StdEncoding.AppendDecode(nil, sealed)
	if _, summary, found := cutLast(text, []byte(`"summary":"`)); err == nil && found {
		t.number++
		t.bytes += jsonscan.EndOfText(summary)
	}
}

// cutLast is bytes.Cut at the last place.
func cutLast(text, at []byte) (before, after []byte, found bool) {
	if i := bytes.LastIndex(text, at); i >= 0 {
		return text[:i], text[i+len(at):], true
	}
	return text, nil, false
}

var (
	eventName = []byte("event: ")
	eventEnd  = []byte("\n\n")
	lineEnd   = []byte("\n")
)

// addResponseEvents adds events of the Responses API, which tell every text several times:
// in pieces, and again with the end of the text, of its part, of its item and of the
// response.
func (a *Answer) addResponseEvents(part []byte) {
	for len(part) > 0 {
		var event []byte
		event, part, _ = bytes.Cut(part, eventEnd)
		name, data, _ := bytes.Cut(event, lineEnd)
		switch name = bytes.TrimPrefix(name, eventName); {
		case bytes.HasSuffix(name, []byte(".delta")):
			a.pieces.add(data)
		case string(name) == "response.completed", string(name) == "response.incomplete":
			a.final.add(data)
		}
	}
}

// Tokens returns the estimate.
func (a *Answer) Tokens() int64 {
	return max(a.pieces.tokens(), a.final.tokens()) + int64((a.sound+soundPerToken-1)/soundPerToken)
}

// soundPerToken is the length in base64 of one token of a model's speech: 50 ms, or 2400 bytes
// in the default form of the Realtime API (24,000 samples of two bytes in a second).
const soundPerToken = 3200

// isSound reports whether an event of the Realtime API has a piece of sound.
func isSound(event []byte) bool { return bytes.Contains(event, []byte(`audio.delta"`)) }

// textNames are the members that hold the model's words, in all forms of answers.
var textNames = [...]string{"content", "text", "arguments", "partial_json", "thinking", "delta", "refusal"}

// add adds the texts of a part of an answer.
func (t *texts) add(part []byte) { t.addNamed(part, nil) }

// addNamed adds the texts of a part of an answer, and of one more member.
func (t *texts) addNamed(part, more []byte) {
	for {
		at := bytes.Index(part, []byte(`":`))
		if at < 0 {
			return
		}
		name := part[:at]
		part = bytes.TrimLeft(part[at+2:], " ")
		if len(part) == 0 || part[0] != '"' || !endsWithName(name) && (more == nil || !bytes.HasSuffix(name, more)) {
			continue
		}
		length := jsonscan.EndOfText(part[1:])
		if length > 0 {
			t.number++
			t.bytes += length
		}
		part = part[1+length:]
	}
}

func endsWithName(text []byte) bool {
	for _, name := range textNames {
		if bytes.HasSuffix(text, []byte(name)) { // also reasoning_content and the like
			return !bytes.HasSuffix(text, []byte("encrypted_content"))
		}
	}
	return false
}

// tokens is at least one for each text: streams have about one token in each event.
func (t *texts) tokens() int64 { return max(int64(t.number), TokensOf(t.bytes)) }
