package gemini

import (
	"bytes"
	"net/url"
	"path"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// mediaPart writes a content part that is not text.
func mediaPart(part jsonscan.Value, place string) ([]byte, error) {
	kind := string(part.Get("type").Text())
	switch kind {
	case "image_url", "video_url", "audio_url":
		source := part.Get(kind)
		if source.Kind() == jsonscan.Object {
			source = source.Get("url")
		}
		return sourcePart(source, place+"."+kind+".url")
	case "input_audio":
		audio := part.Get(kind)
		format := dialect.RawText(audio.Get("format"))
		data := audio.Get("data")
		if len(format) == 0 || data.Kind() != jsonscan.String {
			return nil, schema.InvalidValue(place+".input_audio", "'"+place+".input_audio' must have data and format.")
		}
		out := append(append([]byte(`{"inlineData":{"mimeType":"audio/`), format...), `","data":`...)
		return append(append(out, data.Raw()...), "}}"...), nil
	case "file":
		file := part.Get(kind)
		if data := file.Get("file_data"); data.Given() {
			return sourcePart(data, place+".file.file_data")
		}
		return sourcePart(file.Get("file_id"), place+".file.file_id")
	}
	return nil, schema.InvalidValue(place+".type", "'"+place+".type' is none that can be sent to this backend.")
}

// sourcePart writes what an address stands for: the bytes themselves where
// they are in it, else a reference, which the backend follows on its own. The
// gateway fetches nothing.
func sourcePart(source jsonscan.Value, place string) ([]byte, error) {
	text := source.Text()
	if rest, ok := bytes.CutPrefix(text, []byte("data:")); ok {
		meta, data, comma := bytes.Cut(rest, []byte{','})
		mime, isBase64 := bytes.CutSuffix(meta, []byte(";base64"))
		mime, _, _ = bytes.Cut(mime, []byte{';'})
		if !comma || !isBase64 || len(mime) == 0 {
			return nil, schema.InvalidValue(place, "'"+place+"' must be a data URL with a media type and base64 content.")
		}
		out := dialect.AppendString([]byte(`{"inlineData":{"mimeType":`), mime)
		out = dialect.AppendString(append(out, `,"data":`...), data)
		return append(out, "}}"...), nil
	}
	address, err := url.Parse(string(text))
	if err != nil || address.Host == "" {
		return nil, schema.InvalidValue(place, "'"+place+"' must be a data URL or an address that the backend can reach.")
	}
	switch address.Scheme {
	case "http", "https", "gs":
	default:
		return nil, schema.InvalidValue(place, "'"+place+"' must be a data URL or an address that the backend can reach.")
	}
	out := []byte(`{"fileData":{`)
	if mime := mimeByName(address.Path); mime != "" {
		out = append(out, `"mimeType":"`+mime+`",`...)
	}
	return append(append(append(out, `"fileUri":`...), source.Raw()...), "}}"...), nil
}

// mimeByName guesses the media type of a file by the end of its name; empty
// leaves the question to the backend.
func mimeByName(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".png":
		return "image/png"
	case ".webp":
		return "image/webp"
	case ".gif":
		return "image/gif"
	case ".heic":
		return "image/heic"
	case ".heif":
		return "image/heif"
	case ".pdf":
		return "application/pdf"
	case ".mp4":
		return "video/mp4"
	case ".webm":
		return "video/webm"
	case ".mp3":
		return "audio/mp3"
	case ".wav":
		return "audio/wav"
	case ".txt":
		return "text/plain"
	}
	return ""
}
