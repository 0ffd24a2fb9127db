package anthropic

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// isEmptyText reports whether a content part is a text of nothing but white space.
func isEmptyText(p jsonscan.Value) bool {
	return string(p.Get("type").Text()) == "text" && isBlank(p.Get("text"))
}

// isBlank reports whether a value is a string of nothing but white space.
func isBlank(text jsonscan.Value) bool {
	const longest = 256 // more blanks are no slip of a model, and cost to look at
	return text.Kind() == jsonscan.String && len(dialect.RawText(text)) <= longest && len(bytes.TrimSpace(text.Text())) == 0
}

// part writes one content part as a block. Blocks in the backend's own
// words pass as they are.
func (w *requestWriter) part(p jsonscan.Value) *schema.Error {
	switch kind := string(p.Get("type").Text()); kind {
	case "text", "refusal":
		if text := p.Get(kind); text.Kind() == jsonscan.String {
			w.text(text, p.Get("cache_control"))
			return nil
		}
		return schema.InvalidValue("content", "has a text part whose text is not a string.")
	case "image_url":
		address := p.Get("image_url")
		if address.Kind() == jsonscan.Object {
			address = address.Get("url")
		}
		return w.image(address, p.Get("cache_control"))
	case "file":
		return w.document(p.Get("file"), p.Get("cache_control"))
	case "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking":
		w.Raw(p.Raw())
		return nil
	default:
		return schema.InvalidValue("content", "has a part of type '"+kind+"', which this backend does not take.")
	}
}

// text writes a text block.
func (w *requestWriter) text(text, cache jsonscan.Value) {
	w.beginBlock("text")
	w.Member("text", text.Raw())
	w.endBlock(cache)
}

// beginBlock begins a block of a type.
func (w *requestWriter) beginBlock(kind string) {
	w.Object()
	w.Name("type")
	w.Plain(kind)
}

// endBlock ends a block, with the mark that the caller gave it.
func (w *requestWriter) endBlock(cache jsonscan.Value) {
	w.Field("cache_control", cache)
	w.EndObject()
}

// image writes an image: inline if its address holds it, else by address.
func (w *requestWriter) image(address, cache jsonscan.Value) *schema.Error {
	text := address.Text()
	if hasPrefixFold(text, "https://") || hasPrefixFold(text, "http://") {
		w.beginBlock("image")
		w.Name("source")
		w.beginBlock("url")
		w.Member("url", address.Raw())
		w.EndObject()
		w.endBlock(cache)
		return nil
	}
	mediaType, data, ok := splitDataURL(text)
	if !ok {
		return schema.InvalidValue("content", "has an image whose 'url' is neither an http address nor a base64 data URL with a media type.")
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg" // a common slip, which the backend refuses
	}
	w.beginBlock("image")
	w.source(mediaType, data)
	w.endBlock(cache)
	return nil
}

// document writes a file that came inline.
func (w *requestWriter) document(file, cache jsonscan.Value) *schema.Error {
	mediaType, data, ok := splitDataURL(file.Get("file_data").Text())
	if !ok || mediaType != "application/pdf" {
		return schema.InvalidValue("content", "has a file whose 'file_data' is not a base64 data URL of a PDF, the only files that this backend takes.")
	}
	w.beginBlock("document")
	if name := file.Get("filename"); len(dialect.RawText(name)) > 0 {
		w.Member("title", name.Raw())
	}
	w.source(mediaType, data)
	w.endBlock(cache)
	return nil
}

// source writes the content of an image or document.
func (w *requestWriter) source(mediaType string, data []byte) {
	w.Name("source")
	w.beginBlock("base64")
	w.Name("media_type")
	w.Text([]byte(mediaType))
	w.Name("data")
	w.Text(data)
	w.EndObject()
}

// splitDataURL takes a base64 data URL apart.
func splitDataURL(text []byte) (mediaType string, data []byte, ok bool) {
	if !hasPrefixFold(text, "data:") {
		return "", nil, false
	}
	head, data, found := bytes.Cut(text[len("data:"):], []byte{','})
	if !found || len(data) == 0 {
		return "", nil, false
	}
	head, found = bytes.CutSuffix(bytes.ToLower(head), []byte(";base64"))
	kind, _, _ := bytes.Cut(head, []byte{';'}) // parameters say nothing about images
	return string(kind), data, found && len(kind) > 0
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && bytes.EqualFold(text[:len(prefix)], []byte(prefix))
}
