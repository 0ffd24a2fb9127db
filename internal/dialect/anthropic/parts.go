package anthropic

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// isEmptyText reports whether a content part is a text of nothing.
func isEmptyText(p jsonscan.Value) bool {
	text := p.Get("text")
	return string(p.Get("type").Text()) == "text" && text.Kind() == jsonscan.String && len(dialect.RawText(text)) == 0
}

// appendPart writes one content part as a block. Blocks in the backend's own
// words pass as they are.
func appendPart(dst []byte, p jsonscan.Value) ([]byte, *schema.Error) {
	switch kind := string(p.Get("type").Text()); kind {
	case "text", "refusal":
		if text := p.Get(kind); text.Kind() == jsonscan.String {
			return appendText(dst, text, p.Get("cache_control")), nil
		}
		return nil, schema.InvalidValue("content", "has a text part whose text is not a string.")
	case "image_url":
		address := p.Get("image_url")
		if address.Kind() == jsonscan.Object {
			address = address.Get("url")
		}
		return appendImage(dst, address, p.Get("cache_control"))
	case "file":
		return appendDocument(dst, p.Get("file"), p.Get("cache_control"))
	case "image", "document", "search_result", "tool_use", "tool_result", "thinking", "redacted_thinking":
		return append(dst, p.Raw()...), nil
	default:
		return nil, schema.InvalidValue("content", "has a part of type '"+kind+"', which this backend does not take.")
	}
}

func appendText(dst []byte, text, cache jsonscan.Value) []byte {
	dst = append(append(dst, `{"type":"text","text":`...), text.Raw()...)
	return endBlock(dst, cache)
}

// endBlock ends a block, with the mark that the caller gave it.
func endBlock(dst []byte, cache jsonscan.Value) []byte {
	if cache.Given() {
		dst = append(append(dst, `,"cache_control":`...), cache.Raw()...)
	}
	return append(dst, '}')
}

// appendImage writes an image: inline if its address holds it, else by address.
func appendImage(dst []byte, address, cache jsonscan.Value) ([]byte, *schema.Error) {
	text := address.Text()
	if hasPrefixFold(text, "https://") || hasPrefixFold(text, "http://") {
		dst = append(append(dst, `{"type":"image","source":{"type":"url","url":`...), address.Raw()...)
		return endBlock(append(dst, '}'), cache), nil
	}
	mediaType, data, ok := splitDataURL(text)
	if !ok {
		return nil, schema.InvalidValue("content", "has an image whose 'url' is neither an http address nor a base64 data URL with a media type.")
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg" // a common slip, which the backend refuses
	}
	return endBlock(appendSource(append(dst, `{"type":"image"`...), mediaType, data), cache), nil
}

// appendDocument writes a file that came inline.
func appendDocument(dst []byte, file, cache jsonscan.Value) ([]byte, *schema.Error) {
	mediaType, data, ok := splitDataURL(file.Get("file_data").Text())
	if !ok || mediaType != "application/pdf" {
		return nil, schema.InvalidValue("content", "has a file whose 'file_data' is not a base64 data URL of a PDF, the only files that this backend takes.")
	}
	dst = append(dst, `{"type":"document"`...)
	if name := file.Get("filename"); len(dialect.RawText(name)) > 0 {
		dst = append(append(dst, `,"title":`...), name.Raw()...)
	}
	return endBlock(appendSource(dst, mediaType, data), cache), nil
}

func appendSource(dst []byte, mediaType string, data []byte) []byte {
	// The error is about invalid UTF-8, which no scanned text has.
	dst = append(dst, `,"source":{"type":"base64","media_type":`...)
	dst, _ = jsontext.AppendQuote(dst, mediaType)
	dst = append(dst, `,"data":`...)
	dst, _ = jsontext.AppendQuote(dst, data)
	return append(dst, '}')
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
