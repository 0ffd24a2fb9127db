package turns

import (
	"bytes"
	"hash/maphash"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// walker reads the text of one request. Contents lie deeper than the scan of a request has
// recorded; they are walked through in the text, which that scan has checked.
type walker struct {
	doc  *jsonscan.Document
	text []byte
	into io.Writer
	hash maphash.Hash // where into leads for prints

	recent [recentMessages]jsonscan.Value
	count  int
	// results and calls say that results of tools, or calls of them, were among the messages.
	results, calls bool
	// short is the text of the results while it is short; see acknowledges.
	short []byte
}

func (w *walker) write(text []byte) { _, _ = w.into.Write(text) } // a hash takes everything

// markEnd is a byte that no text has. It separates the parts of a message.
var markEnd = []byte{0xff}

// The members of a message that are read on their own.
const (
	memberContent = iota
	memberParts
	memberOutput
	memberToolCalls
	memberFunctionCall

	memberCount
)

var memberNames = jsonscan.NewNames("content", "parts", "output", "tool_calls", "function_call")

// ids are the names of members that differ where the messages are the same, or that nobody
// reads.
var ids = jsonscan.NewNames("id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control", "signature",
	"encrypted_content", "thoughtSignature", "thought_signature", "caller", "index")

// message writes a message with all that it says.
func (w *walker) message(m jsonscan.Value) {
	w.write(markEnd)
	if m.Kind() != jsonscan.Object {
		w.value(m)
		return
	}
	for member := range m.All() {
		if name := member.RawKey(); !ids.Has(name) && member.Given() {
			w.write(name)
			w.value(member)
		}
	}
}

// reply writes a message of the client: of results of tools only these, of others all.
func (w *walker) reply(m jsonscan.Value) {
	side, kind := sideOf(m)
	if string(kind) == "system" || string(kind) == "developer" {
		return // a reminder of the agent, which may count its turns
	}
	var found [memberCount]jsonscan.Value
	m.Find(memberNames, found[:])
	if side == ofTool {
		w.results = true
		w.write(markEnd)
		for _, v := range [...]jsonscan.Value{found[memberContent], found[memberOutput], found[memberParts]} {
			if v.Given() {
				start, _ := v.Span()
				w.result(start)
			}
		}
		return
	}
	for _, list := range [...]jsonscan.Value{found[memberContent], found[memberParts]} {
		if w.blocks(list, w.resultBlock) {
			w.results = true
			return
		}
	}
	w.message(m)
}

// said writes a message of the model: its calls of tools or, where the reply has no results,
// all of it.
func (w *walker) said(m jsonscan.Value) {
	if !w.results {
		w.message(m)
		return
	}
	var found [memberCount]jsonscan.Value
	m.Find(memberNames, found[:])
	if _, kind := sideOf(m); bytes.HasSuffix(kind, []byte("_call")) {
		w.calls = true
		w.message(m)
		return
	}
	if v := found[memberFunctionCall]; v.Given() {
		w.calls = true
		w.value(v)
	}
	for _, list := range [...]jsonscan.Value{found[memberContent], found[memberParts], found[memberToolCalls]} {
		if w.blocks(list, w.callBlock) {
			w.calls = true
		}
	}
}

// blocks passes the objects of a list to a function, and reports whether it took one.
func (w *walker) blocks(list jsonscan.Value, take func(start int) bool) (took bool) {
	if list.Kind() != jsonscan.Array {
		return false
	}
	start, _ := list.Span()
	for i := w.elements(start); w.text[i] != ']'; i = w.after(w.doc.EndOfValue(i)) {
		if w.text[i] == '{' && take(i) {
			took = true
		}
	}
	return took
}

// The ends of types of blocks.
var resultType, callType = []byte(`tool_result"`), []byte(`tool_use"`)

// resultBlock writes a block of a message if it is the result of a tool: a tool_result of the
// Messages API, a functionResponse of Gemini's.
func (w *walker) resultBlock(start int) bool {
	at, isResult := -1, false
	for i := w.elements(start); w.text[i] != '}'; {
		name, value, end := w.member(i)
		switch string(name) {
		case "type":
			isResult = bytes.HasSuffix(w.text[value:end], resultType)
		case "content":
			at = value
		case "functionResponse", "function_response":
			w.response(value)
			return true
		}
		i = w.after(end)
	}
	if isResult && at >= 0 {
		w.write(markEnd)
		w.result(at)
	}
	return isResult
}

// callBlock writes a block of a message if it is a call of a tool.
func (w *walker) callBlock(start int) bool {
	isCall := false
	for i := w.elements(start); w.text[i] != '}'; {
		name, value, end := w.member(i)
		switch string(name) {
		case "type":
			isCall = isCall || bytes.HasSuffix(w.text[value:end], callType)
		case "functionCall", "function_call", "function":
			isCall = true
		}
		i = w.after(end)
	}
	if isCall {
		w.write(markEnd)
		w.block(start)
	}
	return isCall
}

// value writes a value of a message.
func (w *walker) value(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.Array, jsonscan.Object:
		start, _ := v.Span()
		w.inner(start)
	default:
		w.write(v.Raw())
	}
}

// inner writes the value at a place of the text, without the ids of blocks.
func (w *walker) inner(start int) {
	switch w.text[start] {
	case '{':
		w.block(start)
	case '[':
		for i := w.elements(start); w.text[i] != ']'; i = w.after(w.doc.EndOfValue(i)) {
			w.write(markEnd)
			w.inner(i)
		}
	default:
		w.write(w.text[start:w.doc.EndOfValue(start)])
	}
}

// block writes an object without ids. The arguments of a call belong to its tool, and are written
// as they are.
func (w *walker) block(start int) {
	for i := w.elements(start); w.text[i] != '}'; {
		name, value, end := w.member(i)
		switch {
		case ids.Has(name):
		case string(name) == "content":
			w.inner(value)
		case string(name) == "functionCall", string(name) == "function_call", string(name) == "function":
			w.block(value)
		default:
			w.write(name)
			w.write(w.text[value:end])
		}
		i = w.after(end)
	}
}

// member returns the name of the member at a place, and where its value begins and ends.
func (w *walker) member(i int) (name []byte, value, end int) {
	nameEnd := w.doc.EndOfString(i + 1)
	value = w.space(w.space(nameEnd+1) + 1) // behind the colon
	return w.text[i+1 : nameEnd], value, w.doc.EndOfValue(value)
}

// elements returns where the first element or member is of the array or object at a place, or
// where it closes.
func (w *walker) elements(start int) int { return w.space(start + 1) }

// after returns where the element or member is that follows one with this end, or where the
// array or object closes.
func (w *walker) after(end int) int {
	if end = w.space(end); w.text[end] == ',' {
		return w.space(end + 1)
	}
	return end
}

func (w *walker) space(i int) int {
	for w.text[i] == ' ' || w.text[i] == '\n' || w.text[i] == '\r' || w.text[i] == '\t' {
		i++
	}
	return i
}
