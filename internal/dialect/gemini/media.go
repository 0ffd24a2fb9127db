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
			return schema.BadField("input_audio", "value.has_format")
		}
	case chat.FilePart:
		place = "file.file_data"
	default:
		return schema.BadField("type", "value.type_here")
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
		return schema.BadField(place, "value.data_url")
	}
	address, err := url.Parse(string(source))
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" &&
		address.Scheme != "gs" {
		return schema.BadField(place, "value.data_url_or_address")
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
func mimeByName(name string) string { return mimeTypes[strings.ToLower(path.Ext(name))] }

var mimeTypes = map[string]string{
	".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif",
	".heic": "image/heic", ".heif": "image/heif", ".pdf": "application/pdf", ".mp4": "video/mp4",
	".webm": "video/webm", ".mp3": "audio/mp3", ".wav": "audio/wav", ".txt": "text/plain",
}
