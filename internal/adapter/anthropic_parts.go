package adapter

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// emptyAnthropicPart reports whether a content part is a text of nothing.
func emptyAnthropicPart(p jsonscan.Value) bool {
	text := p.Get("text")
	return string(p.Get("type").Text()) == "text" && text.Kind() == jsonscan.String && len(innerText(text)) == 0
}

// appendAnthropicPart writes one content part as a block. Blocks in the backend's own
// words pass as they are.
func appendAnthropicPart(dst []byte, p jsonscan.Value) ([]byte, *schema.Error) {
	switch kind := string(p.Get("type").Text()); kind {
	case "text", "refusal":
		if text := p.Get(kind); text.Kind() == jsonscan.String {
			return appendAnthropicText(dst, text, p.Get("cache_control")), nil
		}
		return nil, schema.InvalidValue("content", "has a text part whose text is not a string.")
	case "image_url":
		address := p.Get("image_url")
		if address.Kind() == jsonscan.Object {
			address = address.Get("url")
		}
		return appendAnthropicImage(dst, address, p.Get("cache_control"))
	case "file":
		return appendAnthropicDocument(dst, p.Get("file"), p.Get("cache_control"))
	case "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking":
		return append(dst, p.Raw()...), nil
	default:
		return nil, schema.InvalidValue("content", "has a part of type '"+kind+"', which this backend does not take.")
	}
}

func appendAnthropicText(dst []byte, text, cache jsonscan.Value) []byte {
	dst = append(append(dst, `{"type":"text","text":`...), text.Raw()...)
	return endAnthropicBlock(dst, cache)
}

// endAnthropicBlock ends a block, with the mark that the caller gave it.
func endAnthropicBlock(dst []byte, cache jsonscan.Value) []byte {
	if cache.Given() {
		dst = append(append(dst, `,"cache_control":`...), cache.Raw()...)
	}
	return append(dst, '}')
}

// appendAnthropicImage writes an image: inline if its address holds it, else by address.
func appendAnthropicImage(dst []byte, address, cache jsonscan.Value) ([]byte, *schema.Error) {
	text := address.Text()
	if anthropicHasPrefix(text, "https://") || anthropicHasPrefix(text, "http://") {
		dst = append(append(dst, `{"type":"image","source":{"type":"url","url":`...), address.Raw()...)
		return endAnthropicBlock(append(dst, '}'), cache), nil
	}
	mediaType, data, ok := anthropicDataURL(text)
	if !ok {
		return nil, schema.InvalidValue("content", "has an image whose 'url' is neither an http address nor a base64 data URL with a media type.")
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg" // a common slip, which the backend refuses
	}
	return endAnthropicBlock(appendAnthropicSource(append(dst, `{"type":"image"`...), mediaType, data), cache), nil
}

// appendAnthropicDocument writes a file that came inline.
func appendAnthropicDocument(dst []byte, file, cache jsonscan.Value) ([]byte, *schema.Error) {
	mediaType, data, ok := anthropicDataURL(file.Get("file_data").Text())
	if !ok || mediaType != "application/pdf" {
		return nil, schema.InvalidValue("content", "has a file whose 'file_data' is not a base64 data URL of a PDF, the only files that this backend takes.")
	}
	dst = append(dst, `{"type":"document"`...)
	if name := file.Get("filename"); len(innerText(name)) > 0 {
		dst = append(append(dst, `,"title":`...), name.Raw()...)
	}
	return endAnthropicBlock(appendAnthropicSource(dst, mediaType, data), cache), nil
}

func appendAnthropicSource(dst []byte, mediaType string, data []byte) []byte {
	// The error is about invalid UTF-8, which no scanned text has.
	dst = append(dst, `,"source":{"type":"base64","media_type":`...)
	dst, _ = jsontext.AppendQuote(dst, mediaType)
	dst = append(dst, `,"data":`...)
	dst, _ = jsontext.AppendQuote(dst, data)
	return append(dst, '}')
}

// anthropicDataURL takes a base64 data URL apart.
func anthropicDataURL(text []byte) (mediaType string, data []byte, ok bool) {
	if !anthropicHasPrefix(text, "data:") {
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

func anthropicHasPrefix(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && bytes.EqualFold(text[:len(prefix)], []byte(prefix))
}
