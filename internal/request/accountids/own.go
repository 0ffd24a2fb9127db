package accountids

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// isOwnSkill reports whether a skill is one of the account: others are the provider's.
func isOwnSkill(id string) bool { return strings.HasPrefix(id, "skill_") }

// references returns the ids of items that the input of a request of the Responses API names
// without having them.
func references(body jsonscan.Value) []string {
	var ids []string
	for item := range body.Get("input").All() {
		if id := string(item.TextOf("id")); id != "" && isBare(item) {
			ids = append(ids, id)
		}
	}
	return ids
}

// isBare reports whether an item is a reference: it says so, or has no type and no role, or
// nothing but its id.
func isBare(item jsonscan.Value) bool {
	kind := item.Get("type")
	if string(kind.Text()) == "item_reference" || !kind.Given() && !item.Get("role").Given() {
		return true
	}
	for m := range item.All() {
		switch string(m.Key()) {
		case "type", "id", "status":
		default:
			return false
		}
	}
	return true
}

// filesHost is where Gemini has the files of accounts.
const filesHost = "generativelanguage.googleapis.com"

// isOwnFile reports whether the name of a file is not an address that anybody can
// reach.
func isOwnFile(text string) bool {
	address, err := url.Parse(text)
	return err != nil || address.Scheme != "http" && address.Scheme != "https" || isOwnAddress(text)
}

// isOwnAddress reports whether an address leads to a file of an account.
func isOwnAddress(text string) bool {
	if strings.HasPrefix(text, "data:") {
		return false
	}
	address, err := url.Parse(text)
	return err == nil && (address.Scheme == "gs" ||
		strings.EqualFold(strings.TrimSuffix(address.Hostname(), "."), filesHost))
}

// NoteResponse notes the ids that a response of the Responses API gives its caller: the ids
// of its items, and of the files and containers that they name. It does nothing without a
// function.
func NoteResponse(note func(ids []string), response jsonscan.Value) {
	output := response.Get("output")
	if note == nil || output.Kind() != jsonscan.Array {
		return
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true} // in an event the items are too deep to be found
	if doc.Parse(output.Raw()) != nil {
		return
	}
	var ids []string
	for item := range doc.Root().All() {
		if id := string(item.TextOf("id")); id != "" {
			ids = append(ids, id)
		}
	}
	if raw := output.Raw(); bytes.Contains(raw, []byte("file_id")) || bytes.Contains(raw, []byte("container_id")) {
		ids = append(ids, given(raw, "file_id", "container_id")...)
	}
	if len(ids) > 0 {
		note(ids)
	}
}

// NoteMessage notes the ids that a message of Anthropic's API, or an event of one, gives
// its caller: the ids of files that tools made, and of the container they ran in.
func NoteMessage(note func(ids []string), data []byte) {
	if note == nil || !bytes.Contains(data, []byte("file_id")) && !bytes.Contains(data, []byte(`"container"`)) {
		return
	}
	if ids := given(data, "file_id", "container.id"); len(ids) > 0 {
		note(ids)
	}
}

// given returns the texts of members with these names, in any depth. The arguments of tools are
// the model's word, and give nothing.
func given(data []byte, names ...string) []string {
	r := rule{members: map[string]func(string) bool{}, skips: []string{"input", "arguments"}}
	for _, name := range names {
		r.members[name] = nil
	}
	var ids []string
	for _, one := range r.find(data) {
		ids = append(ids, one.ID)
	}
	return ids
}
