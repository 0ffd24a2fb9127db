// Package accountids finds ids of an account's things at a backend in requests and answers:
// files, stores, containers, prompts, items of earlier answers. All callers of an instance share
// its account: whoever knows an id could read the data of others.
package accountids

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Rules say where requests name ids: one set for each API.
type Rules uint8

// The sets of rules. None names nothing.
const (
	None Rules = iota
	Chat
	Responses
	Anthropic
	Gemini
)

// rule describes one set.
type rule struct {
	// marks are texts: a request that names ids in members has one of them. A request
	// without is not looked into.
	marks []string
	// members are the names of the members that have ids, as texts or lists of texts:
	// "file_id", or "prompt.id" for one in a member of that name. The function reports
	// whether a text is an id of the account; nil means that all are.
	members map[string]func(text string) bool
	// skips are the names of members with content of the caller's own, such as the
	// arguments of tools.
	skips []string
	// references returns the ids that a request names otherwise; it may be nil.
	references func(body jsonscan.Value) []string
	// ofTranslated says that the rules hold for requests of other APIs too: their
	// translation passes such names on.
	ofTranslated bool
}

var rules = [...]rule{
	None: {},
	Chat: {
		marks:   []string{"file_id"},
		members: map[string]func(string) bool{"file_id": nil},
		skips:   []string{"parameters", "schema", "metadata"},
	},
	Responses: {
		marks: []string{"file_id", "vector_store_id", "container", "skill_id", `"prompt"`},
		members: map[string]func(string) bool{
			"file_id": nil, "file_ids": nil, "vector_store_id": nil, "vector_store_ids": nil, "container": nil,
			"container_id": nil, "prompt.id": nil, "skill_id": isOwnSkill,
		},
		// Clients send the arguments and the results of tools back with earlier answers.
		skips:      []string{"metadata", "parameters", "schema", "arguments", "annotations", "results", "outputs"},
		references: references,
	},
	Anthropic: {
		marks: []string{"file_id", "container", "skill_id"},
		members: map[string]func(string) bool{"file_id": nil, "container": nil, "container.id": nil,
			"skill_id": isOwnSkill},
		// Input holds the arguments of tools.
		skips:        []string{"input", "input_schema", "parameters", "arguments", "metadata", "citations"},
		ofTranslated: true,
	},
	Gemini: {
		marks: []string{"fileUri", "file_uri", "achedContent", "ached_content", "ileSearchStore", "file_search_store",
			`"url"`, `"image_url"`, `"file_data"`, `"file_id"`},
		members: map[string]func(string) bool{
			"fileUri": isOwnFile, "file_uri": isOwnFile, "url": isOwnAddress, "image_url": isOwnAddress,
			"file_data": isOwnAddress, "file_id": isOwnAddress,
			"cachedContent": nil, "cached_content": nil, "fileSearchStoreNames": nil, "file_search_store_names": nil,
		},
		skips: []string{"args", "response", "parameters", "parametersJsonSchema", "responseSchema",
			"responseJsonSchema", "labels", "metadata"},
		ofTranslated: true,
	},
}

// HoldFor reports whether the rules are for a request, which may be one of another API.
func (r Rules) HoldFor(isTranslated bool) bool {
	return r != None && (!isTranslated || rules[r].ofTranslated)
}

// Named returns the ids of an account that a request names.
func (r Rules) Named(req *schema.Request) []schema.NamedID {
	var found []schema.NamedID
	if references := rules[r].references; references != nil {
		for _, id := range references(req.Body.Root()) {
			found = append(found, schema.NamedID{Param: "input", ID: id})
		}
	}
	if data := req.Body.Data(); rules[r].mayName(data) {
		found = append(found, rules[r].find(data)...)
	}
	return found
}

// mayName reports whether a text has one of the marks, or escaped letters, which may hide
// one.
func (r rule) mayName(data []byte) bool {
	for _, mark := range r.marks {
		if contains(data, mark) {
			return true
		}
	}
	escape := []byte(`\u00`)
	for at := bytes.Index(data, escape); at >= 0; at = bytes.Index(data, escape) {
		data = data[at+len(escape):]
		if len(data) > 0 && data[0] >= '4' && data[0] <= '7' { // a letter or an underscore
			return true
		}
	}
	return false
}

// contains reports whether a text has a mark. It looks for the underscore and compares from
// there, because that is rare: letters are everywhere in a prompt, and looking at each takes
// nine times as long.
func contains(data []byte, mark string) bool {
	before := max(strings.LastIndexByte(mark, '_'), 0)
	for at := 0; at < len(data); at++ {
		next := bytes.Index(data[at:], []byte(mark[before:]))
		if next < 0 {
			return false
		}
		if at += next; at >= before && string(data[at-before:at]) == mark[:before] {
			return true
		}
	}
	return false
}

// find looks for ids in a JSON text, which is known to be valid.
func (r rule) find(data []byte) []schema.NamedID {
	w := walk{rule: r, from: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))}
	w.value("", "")
	return w.found
}

// walk is a walk through a JSON text.
type walk struct {
	rule  rule
	from  *jsontext.Decoder
	found []schema.NamedID
}

// value looks into the next value: the value of a member, or an element of it. It returns
// false where the text ends too soon.
func (w *walk) value(parent, name string) bool {
	switch w.from.PeekKind() {
	case '{':
		return w.object(name)
	case '[':
		_, err := w.from.ReadToken()
		for err == nil && w.from.PeekKind() != ']' {
			if !w.value(parent, name) {
				return false
			}
		}
		if err == nil {
			_, err = w.from.ReadToken()
		}
		return err == nil
	case '"':
		token, err := w.from.ReadToken()
		if err == nil {
			w.note(parent, name, token)
		}
		return err == nil
	}
	return w.from.SkipValue() == nil
}

// object looks into the members of an object that is itself the value of a member.
func (w *walk) object(name string) bool {
	_, err := w.from.ReadToken()
	for err == nil && w.from.PeekKind() != '}' {
		var key jsontext.Token
		if key, err = w.from.ReadToken(); err != nil {
			return false
		}
		member := key.String()
		if slices.Contains(w.rule.skips, member) {
			err = w.from.SkipValue()
			continue
		}
		if !w.value(name, member) {
			return false
		}
	}
	if err == nil {
		_, err = w.from.ReadToken()
	}
	return err == nil
}

// note notes a text that is an id.
func (w *walk) note(parent, name string, token jsontext.Token) {
	isOwn, known := w.rule.members[name]
	if !known {
		isOwn, known = w.rule.members[parent+"."+name]
	}
	if !known {
		return
	}
	if text := token.String(); text != "" && (isOwn == nil || isOwn(text)) {
		w.found = append(w.found, schema.NamedID{Param: name, ID: text})
	}
}
