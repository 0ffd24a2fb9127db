package prompts

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
)

// Contents lie deeper than the scan of a request has recorded. They are walked through in
// the text, which was checked by that scan: every value has an end.

// nature is the possible use of a text, by the name of its member.
type nature uint8

const (
	unknown nature = iota
	written        // words of a person or the model, whatever they look like
	data           // a file in base64, or a plain document
)

// value reads the value at i and returns where it ends. The nature belongs to a text, or to
// the texts in a list.
func (r *reader) value(is nature, i int) (end int) {
	switch r.body[i] {
	case '"':
		end = r.doc.EndOfString(i + 1)
		r.text(is, r.body[i+1:end])
		return end + 1
	case '[':
		return r.list(is, i)
	case '{':
		return r.object(i)
	}
	end = r.doc.EndOfValue(i)
	if r.body[i] != 'n' { // null
		r.raw(r.body[i:end])
	}
	return end
}

// list reads the elements of an array.
func (r *reader) list(is nature, i int) (end int) {
	i = r.skipSpace(i + 1)
	for isFirst := true; r.body[i] != ']'; isFirst = false {
		if !isFirst {
			i = r.skipSpace(i + 1) // after the comma
			r.into.Part("")
		}
		i = r.skipSpace(r.value(is, i))
	}
	return i + 1
}

// object reads the members of an object.
func (r *reader) object(i int) (end int) {
	i = r.skipSpace(i + 1)
	if head := textHead(r.body[i:]); head > 0 {
		i = r.skipSpace(r.value(written, i+head))
	}
	for r.body[i] != '}' {
		if r.body[i] == ',' {
			i = r.skipSpace(i + 1)
		}
		nameEnd := r.doc.EndOfString(i + 1)
		name := r.body[i+1 : nameEnd]
		i = r.skipSpace(r.skipSpace(nameEnd+1) + 1) // after the colon
		i = r.skipSpace(r.member(name, i))
	}
	return i + 1
}

// textHead returns the number of bytes before the value of a part that is a text, if its
// members begin as almost all clients write them. Agents send hundreds of such parts, and
// to read their names one by one takes longer than to hash a short text.
func textHead(members []byte) int {
	const begin, end = `"type":"`, `text","text":`
	at := len(begin)
	if len(members) <= at+len("output_")+len(end) || string(members[:at]) != begin {
		return 0
	}
	switch members[at] {
	case 'i':
		at += len("input_")
	case 'o':
		at += len("output_")
	}
	if string(members[at:at+len(end)]) != end {
		return 0
	}
	return at + len(end)
}

// member reads the member of a part of a content, with its value at i. A part that is a
// text is read like a text alone.
func (r *reader) member(name []byte, i int) (end int) {
	switch string(name) {
	case "text", "content":
		return r.value(written, i)
	case "type", "id", "status", "call_id", "tool_call_id", "tool_use_id", "cache_control", "signature",
		"encrypted_content",
		"annotations", "logprobs", "media_type", "format", "detail":
		return r.doc.EndOfValue(i) // no engine reads it
	case "input", "arguments":
		end = r.doc.EndOfValue(i)
		r.raw(r.body[i:end])
		return end
	case "data", "file_data":
		return r.value(data, i)
	}
	if r.body[i] != 'n' { // null is as good as nothing
		r.raw(name)
	}
	return r.value(unknown, i)
}

// text reads a text with its escapes.
func (r *reader) text(is nature, text []byte) {
	isFile := false
	switch is {
	case written:
		if r.isSystem && bytes.HasPrefix(text, []byte(messages.BillingMark)) {
			return // no engine reads it
		}
	case data:
		isFile = estimate.IsFile("data", text)
	default:
		isFile = estimate.IsFile("", text) || isEncoded(text)
	}
	if isFile {
		r.into.Data(text, estimate.FileLength)
		r.length += estimate.FileLength
		return
	}
	r.raw(text)
}

// leastFile is how long a text without a name that tells it is a file must be to be one.
const leastFile = 1 << 10

// isEncoded reports whether a text is long and looks like base64 all over: images and
// sounds come under many names.
func isEncoded(text []byte) bool {
	if len(text) < leastFile {
		return false
	}
	for _, c := range text[:leastFile] {
		isBase64 := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' ||
			c == '-' || c == '_' || c == '='
		if !isBase64 {
			return false
		}
	}
	return bytes.IndexByte(text, ' ') < 0
}

// raw reads bytes as they are.
func (r *reader) raw(text []byte) {
	r.into.Text(text)
	r.length += len(text)
}

// skipSpace returns where the next byte is that is no space.
func (r *reader) skipSpace(i int) int {
	for r.body[i] == ' ' || r.body[i] == '\n' || r.body[i] == '\r' || r.body[i] == '\t' {
		i++
	}
	return i
}
