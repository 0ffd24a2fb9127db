package responses

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// member is a member of a response, with its value where nothing else is said. Only members
// that may be null are null then: clients that hold the API to its schema refuse null
// elsewhere.
type member struct{ name, without string }

// echoed are the members of a request that a response repeats, in their order. Where the
// request has none, the response has the API's own default.
var echoed = [...]member{
	{"frequency_penalty", `0`},
	{"instructions", `null`},
	{"max_output_tokens", `null`},
	{"max_tool_calls", `null`},
	{"metadata", `{}`},
	{"model", `""`},
	{"parallel_tool_calls", `true`},
	{"presence_penalty", `0`},
	{"previous_response_id", `null`},
	{"prompt_cache_key", `null`},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", `null`},
	{"service_tier", `"default"`},
	{"store", `true`},
	{"temperature", `1`},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", `[]`},
	{"top_logprobs", `0`},
	{"top_p", `1`},
	{"truncation", `"disabled"`},
	{"user", `null`},
}

// writeEcho writes the members of a response that repeat the request. Some tools may lack
// members if hasBriefTools is set.
func writeEcho(w *jsonwrite.Writer, root jsonscan.Value, hasBriefTools bool) {
	w.Literal(`"background":false`)
	for _, m := range echoed {
		w.Name(m.name)
		writeEchoed(w, m.name, root.Get(m.name), m.without, hasBriefTools)
	}
}

// writeEchoed writes the value that a response has because the request has one, or the
// default.
func writeEchoed(w *jsonwrite.Writer, name string, v jsonscan.Value, without string, hasBriefTools bool) {
	switch {
	case !v.Given():
		w.Literal(without)
	case name == "reasoning":
		writeWith(w, v, "effort", "summary")
	case name == "text":
		writeText(w, v)
	case name == "tools" && hasBriefTools:
		writeTools(w, v)
	default:
		w.Raw(inOneLine(v))
	}
}

// writeWith writes an object, with null for each of these members that it does not have.
func writeWith(w *jsonwrite.Writer, object jsonscan.Value, names ...string) {
	if object.Kind() != jsonscan.Object || hasAll(object, names) {
		w.Raw(inOneLine(object))
		return
	}
	w.Object()
	for m := range object.All() {
		w.Name(string(m.RawKey())).Raw(inOneLine(m))
	}
	for _, name := range names {
		if object.Get(name).Kind() == jsonscan.Absent {
			w.Name(name).Literal("null")
		}
	}
	w.EndObject()
}

// hasAll reports whether an object has all members of these names.
func hasAll(object jsonscan.Value, names []string) bool {
	for _, name := range names {
		if object.Get(name).Kind() == jsonscan.Absent {
			return false
		}
	}
	return true
}

// writeText writes a request's settings of texts, with the default format where it
// names none.
func writeText(w *jsonwrite.Writer, text jsonscan.Value) {
	if text.Kind() != jsonscan.Object || text.Get("format").Given() {
		w.Raw(inOneLine(text))
		return
	}
	w.Object()
	w.Literal(`"format":{"type":"text"}`)
	for m := range text.All() {
		if string(m.Key()) != "format" {
			w.Name(string(m.RawKey())).Raw(inOneLine(m))
		}
	}
	w.EndObject()
}

// writeTools writes the tools of a request. The schema requires more members of a function
// than clients must send.
func writeTools(w *jsonwrite.Writer, tools jsonscan.Value) {
	var doc jsonscan.Document
	w.Array()
	for t := range doc.Rescan(tools).All() {
		if t.Is("type", "function") {
			writeWith(w, t, functionMembers[:]...)
		} else {
			w.Raw(inOneLine(t))
		}
	}
	w.EndArray()
}

// functionMembers are the members that the schema requires of a function, but for its type
// and name.
var functionMembers = [...]string{"description", "parameters", "strict"}

// repeated returns the members of a response that repeat the request.
func (r *Request) repeated() []byte {
	w := jsonwrite.Writer{Out: make([]byte, 0, sizeOfEcho(r.root))}
	writeEcho(&w, r.root, r.hasBriefTools)
	return w.Out
}

// sizeOfEcho returns about how long the members of a response are that repeat the request:
// as long as the request without its input, and the defaults.
func sizeOfEcho(root jsonscan.Value) int { return 768 + len(root.Raw()) - len(root.Get("input").Raw()) }

// inOneLine returns a value as it came, or compact if it has line breaks, which would end
// the line of an event.
func inOneLine(v jsonscan.Value) []byte {
	raw := v.Raw()
	if k := v.Kind(); k != jsonscan.Object && k != jsonscan.Array ||
		bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	compact := jsontext.Value(bytes.Clone(raw))
	if compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return []byte("null") // the whole was scanned before: a part has no faults
	}
	return compact
}
