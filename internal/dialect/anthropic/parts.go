package anthropic

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// isBlank reports whether a text is nothing but white space.
func isBlank(text chat.Text) bool {
	const longest = 256 // more blanks are no slip of a model, and cost to look at
	return text != nil && len(text) <= longest && len(bytes.TrimSpace(text.Bytes())) == 0
}

// part writes one content part as a block. Blocks in the backend's own
// words pass as they are.
func (w *requestWriter) part(p *chat.Part) *schema.Error {
	switch p.Type {
	case chat.TextPart, chat.RefusalPart:
		if p.Text == nil {
			return schema.BadField("content", "value.part_text")
		}
		w.text(p.Text, p.Cache)
		return nil
	case chat.ImagePart:
		return w.image(p)
	case chat.FilePart:
		return w.document(p)
	case "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking":
		w.Raw(p.Raw)
		return nil
	default:
		return schema.BadField("content", "value.part_kind", "kind", p.Type)
	}
}

// text writes a text block.
func (w *requestWriter) text(text chat.Text, cache []byte) {
	w.beginBlock("text")
	w.EscapedMember("text", text)
	w.endBlock(cache)
}

// beginBlock begins a block of a type.
func (w *requestWriter) beginBlock(kind string) {
	w.Open(`{"type":`).Plain(kind)
}

// endBlock ends a block, with the mark that the caller gave it.
func (w *requestWriter) endBlock(cache []byte) {
	w.Given("cache_control", cache)
	w.EndObject()
}

// image writes an image: inline if its address holds it, else by address.
func (w *requestWriter) image(p *chat.Part) *schema.Error {
	switch {
	case p.MediaType != "":
		w.beginBlock("image")
		w.source(p)
	case hasPrefixFold(p.URL.Bytes(), "https://"), hasPrefixFold(p.URL.Bytes(), "http://"):
		w.beginBlock("image")
		w.Name("source")
		w.beginBlock("url")
		w.EscapedMember("url", p.URL)
		w.EndObject()
	default:
		return schema.BadField("content", "value.image_url")
	}
	w.endBlock(p.Cache)
	return nil
}

// document writes a file that came inline.
func (w *requestWriter) document(p *chat.Part) *schema.Error {
	if p.MediaType != "application/pdf" {
		return schema.BadField("content", "value.pdf")
	}
	w.beginBlock("document")
	if len(p.Name) > 0 {
		w.EscapedMember("title", p.Name)
	}
	w.source(p)
	w.endBlock(p.Cache)
	return nil
}

// source writes the content of an image or document.
func (w *requestWriter) source(p *chat.Part) {
	w.Name("source")
	w.beginBlock("base64")
	w.Name("media_type").Text([]byte(p.MediaType))
	w.EscapedMember("data", p.Data)
	w.EndObject()
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && bytes.EqualFold(text[:len(prefix)], []byte(prefix))
}
