package schema

import (
	"bytes"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Mended returns the request with {} in place of the arguments of earlier tool calls that are no
// object of JSON, and how many those are; the request itself if there are none. Some models write such
// calls, and most backends refuse the conversation from then on.
func (r *Request) Mended() (*Request, int) {
	if r.mended == nil {
		r.mended, r.mends = r.mend()
	}
	return r.mended, r.mends
}

func (r *Request) mend() (*Request, int) {
	body := r.Body.Root().Raw()
	doc := jsonscan.Document{Deep: true}
	if r.Service != Chat || !bytes.Contains(body, []byte(`"arguments"`)) || doc.Parse(body) != nil {
		return r, 0
	}
	var edits []jsonscan.Edit
	mend := func(arguments jsonscan.Value) {
		if text := bytes.TrimSpace(arguments.Text()); arguments.Given() && arguments.Kind() != jsonscan.Object &&
			!chat.IsObject(text) {
			edits = append(edits, arguments.Replace([]byte(`"{}"`)))
		}
	}
	for message := range doc.Root().Get("messages").All() {
		for call := range message.Get("tool_calls").All() {
			mend(call.Get("function").Get("arguments"))
		}
	}
	for item := range doc.Root().Get("input").All() {
		if item.Is("type", "function_call") {
			mend(item.Get("arguments"))
		}
	}
	if len(edits) == 0 || r.ReserveCopy(len(body)) != nil {
		return r, 0
	}
	mended := r.Copy(nil)
	mended.Body = jsonscan.Document{Reserve: r.Body.Reserve}
	if mended.Body.Parse(slices.Concat(doc.Splice(nil, edits)...)) != nil {
		return r, 0
	}
	mended.extra = mended.Body.Root().Get("extra_body")
	return mended, len(edits)
}
