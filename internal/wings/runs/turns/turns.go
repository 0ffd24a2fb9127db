// Package turns decides which calls of an agent are equal. It reads the conversation of a
// request at every door and keeps keyed hashes of it, never a text. Names that differ from call
// to call, such as the ids of tools' calls, leave no trace in them.
package turns

import (
	"bytes"
	"hash/maphash"
	"io"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Print is a keyed hash of a text; 0 stands for no text. The key belongs to a Reader.
type Print uint64

// Turn is one call of an agent.
type Turn struct {
	// Body is the print of the whole request, without the names of its sender.
	Body Print
	// Step is the print of its last step: the results of tools that it brings, or the last words
	// of the model and the reply to them. It is 0 for a request that only begins a conversation.
	Step Print
	// Agent is the print of the sub-agent's name, 0 for an agent that has none.
	Agent Print
}

// Reader reads turns. It may be used by several goroutines.
type Reader struct {
	seed    maphash.Seed
	walkers sync.Pool
}

// NewReader returns a reader with a key of its own.
func NewReader() *Reader { return &Reader{seed: maphash.MakeSeed()} }

// Read returns the turn of a request that an agent with a name sent. It reports false for a door
// without conversations.
func (r *Reader) Read(req *schema.Request, agent string) (Turn, bool) {
	list := Messages(req)
	if !list.Given() {
		return Turn{}, false
	}
	w, isKept := r.walkers.Get().(*walker)
	if !isKept {
		w = new(walker)
		w.hash.SetSeed(r.seed)
		w.into = &w.hash
	}
	w.doc, w.text = &req.Body, req.Body.Data()
	t := Turn{Body: w.body(req), Step: w.step(list)}
	if agent != "" {
		t.Agent = printOf(maphash.String(r.seed, agent))
	}
	w.doc, w.text = nil, nil
	r.walkers.Put(w)
	return t, true
}

// Messages returns the messages of a request that has a conversation: a list of messages or of
// items, or one text.
func Messages(req *schema.Request) jsonscan.Value {
	switch req.Door {
	case schema.DoorChat:
		return req.Field("messages")
	case schema.DoorMessages, schema.DoorOllamaChat:
		return req.Body.Root().Get("messages")
	case schema.DoorResponses:
		return req.Body.Root().Get("input")
	case schema.DoorGemini:
		return req.Body.Root().Get("contents")
	case schema.DoorCompletions:
		return req.Field("prompt")
	case schema.DoorOllamaGenerate:
		return req.Body.Root().Get("prompt")
	}
	return jsonscan.Value{}
}

// Beginning writes the messages before the first answer of the model, which stay the same
// throughout a conversation. It reports false for a request without such messages.
func Beginning(req *schema.Request, into io.Writer) bool {
	switch req.Door {
	case schema.DoorChat, schema.DoorMessages, schema.DoorOllamaChat, schema.DoorResponses, schema.DoorGemini:
	default:
		return false // the text of a completion has no messages
	}
	w := walker{into: into, doc: &req.Body, text: req.Body.Data()}
	list := Messages(req)
	if list.Kind() == jsonscan.String {
		w.value(list)
		return true
	}
	isGiven := false
	for m := range list.All() {
		if side, _ := sideOf(m); side == ofModel {
			break
		}
		w.message(m)
		isGiven = true
	}
	return isGiven
}

// unequal are the members of a body that differ where the calls of an agent are the same.
var unequal = jsonscan.NewNames("metadata", "client_metadata", "user", "safety_identifier", "prompt_cache_key")

// body returns the print of a whole request.
func (w *walker) body(req *schema.Request) Print {
	w.hash.Reset()
	w.write([]byte(req.PathModel))
	for member := range req.Body.Root().All() {
		if !unequal.Has(member.RawKey()) {
			start, end := member.MemberSpan()
			w.write(w.text[start:end])
		}
	}
	return printOf(w.hash.Sum64())
}

// recentMessages is how many messages at the end of a conversation can be a step. A model that
// calls tools at once seldom calls more than half as many.
const recentMessages = 64

// step returns the print of the last step of a conversation.
func (w *walker) step(list jsonscan.Value) Print {
	if list.Kind() != jsonscan.Array {
		return 0
	}
	w.count = 0
	for m := range list.All() {
		w.recent[w.count%recentMessages] = m
		w.count++
	}
	first, reply := w.lastStep()
	if reply == w.count {
		return 0 // the model is to go on with its own words
	}
	w.hash.Reset()
	w.results, w.short = false, w.short[:0]
	for i := reply; i < w.count; i++ {
		w.reply(w.recent[i%recentMessages])
	}
	switch {
	case w.results && !acknowledges(w.short):
		return printOf(w.hash.Sum64()) // whatever was called
	case first == reply:
		return 0 // no word of the model is here
	}
	w.calls = false
	for i := first; i < reply; i++ {
		w.said(w.recent[i%recentMessages])
	}
	if w.results && !w.calls {
		return 0
	}
	return printOf(w.hash.Sum64())
}

// lastStep returns where the last words of the model begin among the recent messages, and where
// the reply to them begins.
func (w *walker) lastStep() (first, reply int) {
	oldest := max(w.count-recentMessages, 0)
	isOfModel := func(i int) bool {
		side, _ := sideOf(w.recent[i%recentMessages])
		return side == ofModel
	}
	reply = w.count
	for reply > oldest && !isOfModel(reply-1) {
		reply--
	}
	first = reply
	for first > oldest && isOfModel(first-1) {
		first--
	}
	return first, reply
}

// side tells who wrote a message.
type side uint8

const (
	ofClient side = iota
	ofModel
	ofTool // the client wrote it for a tool
)

// sideNames are the members that tell the side of a message.
var sideNames = jsonscan.NewNames("role", "type")

// sideOf returns who wrote a message or an item, and its role or type.
func sideOf(m jsonscan.Value) (side, []byte) {
	var found [2]jsonscan.Value
	m.Find(sideNames, found[:])
	kind := found[0]
	if kind.Kind() != jsonscan.String {
		kind = found[1]
	}
	name := kind.Text()
	switch string(name) {
	case "assistant", "model", "reasoning":
		return ofModel, name
	case "tool", "function":
		return ofTool, name
	}
	switch {
	case bytes.HasSuffix(name, []byte("_call")):
		return ofModel, name
	case bytes.HasSuffix(name, []byte("_output")):
		return ofTool, name
	}
	return ofClient, name
}

// printOf returns a print that is not the print of nothing.
func printOf(sum uint64) Print { return Print(max(sum, 1)) }
