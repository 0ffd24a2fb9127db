package responses

import (
	"bytes"
	"encoding/base64"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// state holds the data that a backend wants back unchanged in the next turn: signed
// thinking, and signatures of texts and calls. Clients get it as the encrypted_content
// of a reasoning item and send it back with that.
type state struct {
	blocks  jsonwrite.Writer // elements of thinking_blocks
	details jsonwrite.Writer // elements of reasoning_details
	extra   []byte           // extra_content of the message
	calls   []signedCall     // extra_content of calls
}

type signedCall struct{ id, extra []byte } // both are JSON

// statePrefix distinguishes state that is made here from the encrypted content of other
// providers.
const statePrefix = "pb1."

func (s *state) empty() bool {
	return len(s.blocks.Out) == 0 && len(s.details.Out) == 0 && s.extra == nil && len(s.calls) == 0
}

// reset forgets the state and keeps its memory.
func (s *state) reset() {
	s.blocks.Begin(s.blocks.Out, nil)
	s.details.Begin(s.details.Out, nil)
	s.extra, s.calls = nil, s.calls[:0]
}

// seal returns the state as text that clients keep.
func (s *state) seal() string {
	var w jsonwrite.Writer
	w.Object()
	s.write(&w)
	if len(s.calls) > 0 {
		w.Name("calls").Array()
		for _, c := range s.calls {
			w.Object()
			w.Member("id", c.id)
			w.Member("extra_content", c.extra)
			w.EndObject()
		}
		w.EndArray()
	}
	w.EndObject()
	return statePrefix + base64.StdEncoding.EncodeToString(w.Out)
}

// write writes the members that a message has because of the state.
func (s *state) write(w *jsonwrite.Writer) {
	writeList(w, "thinking_blocks", s.blocks.Out)
	writeList(w, "reasoning_details", s.details.Out)
	if s.extra != nil {
		w.Member("extra_content", s.extra)
	}
}

func writeList(w *jsonwrite.Writer, name string, elements []byte) {
	if len(elements) > 0 {
		w.Name(name).Array()
		w.Raw(elements)
		w.EndArray()
	}
}

// callExtras returns the extras of calls, by their ids. Of several for one call the first
// counts.
func (s *state) callExtras() map[string][]byte {
	if len(s.calls) == 0 {
		return nil
	}
	extras := make(map[string][]byte, len(s.calls))
	for _, c := range s.calls {
		id := chat.Text(c.id[1 : len(c.id)-1]).String()
		if _, there := extras[id]; !there {
			extras[id] = c.extra
		}
	}
	return extras
}

// addState adds a state that a client sent back. It returns false if the text was not
// made here.
func (t *turn) addState(sealed []byte) bool {
	encoded, ours := strings.CutPrefix(string(sealed), statePrefix)
	if !ours {
		return false
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	var doc jsonscan.Document
	if doc.Parse(text) != nil || doc.Root().Kind() != jsonscan.Object {
		return false
	}
	t.state.read(doc.Root())
	for c := range doc.Root().Get("calls").All() {
		if id, extra := c.Get("id"), c.Get("extra_content"); id.Kind() == jsonscan.String &&
			extra.Kind() == jsonscan.Object {
			t.state.calls = append(t.state.calls, signedCall{id.Raw(), extra.Raw()})
		}
	}
	return true
}

// add adds the data of a message or a delta that the backend wants back. It reports
// whether there was something.
func (s *state) add(message *chat.Choice) bool {
	for _, block := range message.Blocks {
		s.blocks.Raw(block)
	}
	for _, detail := range message.Details {
		s.details.Raw(detail)
	}
	if message.Extra != nil {
		s.extra = bytes.Clone(message.Extra)
	}
	return len(message.Blocks)+len(message.Details)+len(message.Extra) > 0
}

// read adds the members that write wrote.
func (s *state) read(message jsonscan.Value) {
	var c chat.Choice
	c.Read(jsonscan.Value{}, message)
	s.add(&c)
}

// SealSummary returns the rest of a compacted conversation as the encrypted_content of an
// item: the messages of the user, as elements of a JSON array, and the summary of everything.
func SealSummary(users, summary []byte) string {
	var w jsonwrite.Writer
	w.Object()
	writeList(&w, "users", users)
	w.Name("summary").Text(summary)
	w.EndObject()
	return statePrefix + base64.StdEncoding.EncodeToString(w.Out)
}

// openSummary returns the sealed summary; false if the text was not made here.
func openSummary(doc *jsonscan.Document, sealed string) (root jsonscan.Value, ours bool) {
	encoded, ours := strings.CutPrefix(sealed, statePrefix)
	text, err := base64.StdEncoding.DecodeString(encoded)
	if !ours || err != nil || doc.Parse(text) != nil || doc.Root().Get("summary").Kind() != jsonscan.String {
		return root, false
	}
	return doc.Root(), true
}
