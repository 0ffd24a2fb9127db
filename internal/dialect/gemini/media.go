package gemini

import (
	"bytes"
	"net/url"
	"path"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// writeMedia writes the member of a content part that is not text: the bytes themselves
// where the part has them, else a reference, which the backend follows on its own. The
// gateway fetches nothing.
func writeMedia(w *jsonwrite.Writer, part *chat.Part) *schema.Error {
	place := part.Type + ".url"
	switch part.Type {
	case chat.ImagePart, chat.VideoPart, chat.SoundPart:
	case chat.AudioPart:
		if part.Data == nil {
			return schema.InvalidValue("input_audio", "must have data and format.")
		}
	case chat.FilePart:
		place = "file.file_data"
	default:
		return schema.InvalidValue("type", "is none that can be sent to this backend.")
	}
	if part.MediaType != "" {
		w.Name("inlineData").Object()
		w.Name("mimeType").Text([]byte(part.MediaType))
		w.EscapedMember("data", part.Data)
		w.EndObject()
		return nil
	}
	source := part.URL.Bytes()
	if part.Data != nil || bytes.HasPrefix(source, []byte("data:")) {
		return schema.InvalidValue(place, "must be a data URL with a media type and base64 content.")
	}
	address, err := url.Parse(string(source))
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" && address.Scheme != "gs" {
		return schema.InvalidValue(place, "must be a data URL or an address that the backend can reach.")
	}
	w.Name("fileData").Object()
	if mime := mimeByName(address.Path); mime != "" {
		w.Name("mimeType").Plain(mime)
	}
	w.EscapedMember("fileUri", part.URL)
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
