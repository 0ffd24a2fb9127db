package gemini

import (
	"bytes"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// writeMedia writes the member of a content part that is not text.
func writeMedia(w *jsonwrite.Writer, part jsonscan.Value, place string) error {
	kind := string(part.Get("type").Text())
	switch kind {
	case "image_url", "video_url", "audio_url":
		source := part.Get(kind)
		if source.Kind() == jsonscan.Object {
			source = source.Get("url")
		}
		return writeSource(w, source, place+"."+kind+".url")
	case "input_audio":
		audio := part.Get(kind)
		format := dialect.RawText(audio.Get("format"))
		data := audio.Get("data")
		if len(format) == 0 || data.Kind() != jsonscan.String {
			return schema.InvalidValue(place+".input_audio", "'"+place+".input_audio' must have data and format.")
		}
		writeInline(w, slices.Concat([]byte(`"audio/`), format, []byte{'"'}), data.Raw())
		return nil
	case "file":
		file := part.Get(kind)
		if data := file.Get("file_data"); data.Given() {
			return writeSource(w, data, place+".file.file_data")
		}
		return writeSource(w, file.Get("file_id"), place+".file.file_id")
	}
	return schema.InvalidValue(place+".type", "'"+place+".type' is none that can be sent to this backend.")
}

// writeInline writes bytes that are part of the request. Both values are JSON.
func writeInline(w *jsonwrite.Writer, mimeType, data []byte) {
	w.Name("inlineData")
	w.Object()
	w.Member("mimeType", mimeType)
	w.Member("data", data)
	w.EndObject()
}

// writeSource writes what an address stands for: the bytes themselves where
// they are in it, else a reference, which the backend follows on its own. The
// gateway fetches nothing.
func writeSource(w *jsonwrite.Writer, source jsonscan.Value, place string) error {
	text := source.Text()
	if rest, ok := bytes.CutPrefix(text, []byte("data:")); ok {
		meta, data, comma := bytes.Cut(rest, []byte{','})
		mime, isBase64 := bytes.CutSuffix(meta, []byte(";base64"))
		mime, _, _ = bytes.Cut(mime, []byte{';'})
		if !comma || !isBase64 || len(mime) == 0 {
			return schema.InvalidValue(place, "'"+place+"' must be a data URL with a media type and base64 content.")
		}
		if string(mime) == "image/jpg" {
			mime = []byte("image/jpeg") // a common slip, which the backend refuses
		}
		writeInline(w, jsonwrite.AppendText(nil, mime), jsonwrite.AppendText(nil, data))
		return nil
	}
	address, err := url.Parse(string(text))
	if err != nil || address.Host == "" {
		return schema.InvalidValue(place, "'"+place+"' must be a data URL or an address that the backend can reach.")
	}
	switch address.Scheme {
	case "http", "https", "gs":
	default:
		return schema.InvalidValue(place, "'"+place+"' must be a data URL or an address that the backend can reach.")
	}
	w.Name("fileData")
	w.Object()
	if mime := mimeByName(address.Path); mime != "" {
		w.Name("mimeType")
		w.Plain(mime)
	}
	w.Member("fileUri", source.Raw())
	w.EndObject()
	return nil
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
