package chat

import (
	"bytes"
	"unicode/utf8"
)

// Transcript is the sent text of an answer. Another backend can go on from it.
type Transcript struct {
	// Text is the sent text, without escapes, and Pieces the number of its deltas.
	Text   []byte
	Pieces int64
	// Bar is why nobody can go on with the answer; empty while somebody could.
	Bar string
}

// longestTranscript bounds the remembered text of an answer.
const longestTranscript = 256 << 10

// Add adds a text that was sent.
func (t *Transcript) Add(text Text) {
	if len(text) == 0 || t.Bar != "" {
		return
	}
	meant := text.Bytes()
	if len(t.Text)+len(meant) > longestTranscript {
		t.Forbid("it is too long to be remembered")
		return
	}
	t.Text = append(t.Text, meant...)
	t.Pieces++
}

// IsCut reports whether the last character that was sent may be a part of one: U+FFFD replaces
// it then, and nobody knows the real character. Behind others it is a character like any
// other, which the model wrote or an engine has replaced for good. (Most engines hold back a
// character until all its bytes have come, and end with none.)
func (t *Transcript) IsCut() bool {
	return bytes.HasSuffix(t.Text, []byte(string(utf8.RuneError)))
}

// Note adds the text of a delta that was sent.
func (t *Transcript) Note(delta *Delta) {
	for i := range delta.Choices {
		switch c := &delta.Choices[i]; {
		case c.Index > 0:
			t.Forbid("there are several answers")
		case len(c.Thinking)+len(c.Blocks)+len(c.Details) > 0:
			t.Forbid("the model has thought")
		case len(c.Calls) > 0:
			t.Forbid("it has a tool call")
		case len(c.Refusal)+len(c.Images)+len(c.Annotations) > 0:
			t.Forbid("it has more than text")
		case len(c.Logprobs) > 0:
			t.Forbid("it has probabilities")
		default:
			t.Add(c.Text)
		}
		if delta.Choices[i].Finish != "" {
			t.Forbid("it has ended")
		}
	}
}

// Forbid notes why nobody can go on with the answer, and forgets it.
func (t *Transcript) Forbid(why string) {
	if t.Bar == "" {
		t.Bar, t.Text = why, nil
	}
}

// Tokens returns about how many tokens were sent: most engines send one in each delta, and
// providers with longer deltas send about one for every four bytes.
func (t *Transcript) Tokens() int64 {
	const longToken, bytesPerToken = 16, 4
	if int64(len(t.Text)) > longToken*t.Pieces {
		return int64(len(t.Text)) / bytesPerToken
	}
	return t.Pieces
}
