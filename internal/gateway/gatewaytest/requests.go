package gatewaytest

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Bodies of requests for the model m.
const (
	PlainHi  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	StreamHi = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// With returns a chat request with one more member.
func With(member string) string { return `{"model":"m",` + SomeMessages + `,` + member + `}` }

// LongText is a prompt of more than a hundred words.
const LongText = "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w " +
	"x y z " +
	"a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z"

// Both runs a test for a plain and for a streamed request.
func Both(t *testing.T, test func(t *testing.T, body string)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, PlainHi) })
	t.Run("streamed", func(t *testing.T) { test(t, StreamHi) })
}

// Part is one part of a form: a field, or a file if it has the name of one.
type Part struct {
	Name, Value string
	Filename    string
	ContentType string
}

// Field returns a field of a form.
func Field(name, value string) Part { return Part{Name: name, Value: value} }

// Upload returns a file of a form.
func Upload(name, filename, contentType, content string) Part {
	return Part{name, content, filename, contentType}
}

// WriteForm writes a form and returns its content type.
func WriteForm(t *testing.T, to io.Writer, parts ...Part) string {
	t.Helper()
	form := multipart.NewWriter(to)
	for _, p := range parts {
		header := textproto.MIMEHeader{}
		disposition := map[string]string{"name": p.Name}
		if p.Filename != "" {
			disposition["filename"] = p.Filename
		}
		header.Set("Content-Disposition", mime.FormatMediaType("form-data", disposition))
		if p.ContentType != "" {
			header.Set("Content-Type", p.ContentType)
		}
		out, err := form.CreatePart(header)
		if err == nil {
			_, err = io.WriteString(out, p.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return form.FormDataContentType()
}

// Recording returns the file of a transcription request.
func Recording() Part { return Upload("file", "a.wav", "audio/wav", "RIFF and so on") }

// Photo returns a file with a PNG.
func Photo(t *testing.T, name string) Part {
	t.Helper()
	return Upload(name, name+".png", "image/png", Picture(t, 8, 8))
}

// Picture returns a PNG.
func Picture(t *testing.T, width, height int) string {
	t.Helper()
	canvas := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width {
		canvas.Set(i, i%height, color.NRGBA{uint8(i), 200, 30, 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, canvas); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Transcriptions is the path of transcription requests.
const Transcriptions = "/v1/audio/transcriptions"

// ServiceRequest is a request of a service type other than chat, which asks for events or
// does not.
type ServiceRequest struct {
	Service     schema.ServiceType
	Name, Path  string
	Asked       func(t *testing.T) (body, contentType string)
	Plain       func(t *testing.T) (body, contentType string)
	First, Last string  // the events of a good answer, in their frames
	Tokens      float64 // reported by the last one
}

// JSONBody returns a JSON text as the body of a ServiceRequest.
func JSONBody(body string) func(*testing.T) (string, string) {
	return func(*testing.T) (string, string) { return body, "application/json" }
}

// FormBody returns a form as the body of a ServiceRequest.
func FormBody(parts ...Part) func(*testing.T) (string, string) {
	return func(t *testing.T) (string, string) {
		var body bytes.Buffer
		contentType := WriteForm(t, &body, parts...)
		return body.String(), contentType
	}
}

// ServiceRequests returns one for each service type that has streams beside chat.
func ServiceRequests(t *testing.T) []ServiceRequest {
	stt := []Part{Field("model", "m"), Recording()}
	edit := []Part{Field("model", "m"), Field("prompt", "x"), Photo(t, "image")}
	return []ServiceRequest{
		{
			schema.STT, "stt", "/v1/audio/transcriptions", FormBody(append(stt, Field("stream", "true"))...),
			FormBody(stt...),
			"data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hel\"}\n\n",
			"data: {\"type\":\"transcript.text.done\",\"text\":\"Hello\",\"usage\":{\"type\":\"tokens\"," +
				"\"input_tokens\":14,\"output_tokens\":3,\"total_tokens\":17}}\n\n", 17,
		},
		{
			schema.ImgGen, "imgGen", "/v1/images/generations", JSONBody(`{"model":"m","prompt":"x","stream":true}`),
			JSONBody(`{"model":"m","prompt":"x","stream":false}`),
			"event: image_generation.partial_image\ndata: " +
				"{\"type\":\"image_generation.partial_image\",\"b64_json\":\"AAAA\"}\n\n",
			"event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"" +
				strings.Repeat(
					"A", 6<<20) + "\",\"usage\":{\"total_tokens\":100,\"input_tokens\":50,\"output_tokens\":50}}\n\n",
			100,
		},
		{
			schema.ImgEdit, "imgEdit", "/v1/images/edits", FormBody(append(edit, Field("stream", "True"))...),
			FormBody(edit...),
			"event: image_edit.partial_image\ndata: {\"type\":\"image_edit.partial_image\",\"b64_json\":\"AAAA\"}\n\n",
			"event: image_edit.completed\ndata: " +
				"{\"type\":\"image_edit.completed\",\"b64_json\":\"BBBB\",\"usage\":{\"total_tokens\":9," +
				"\"input_tokens\":4,\"output_tokens\":5}}\n\n", 9,
		},
		{
			schema.TTS, "tts", "/v1/audio/speech",
			JSONBody(`{"model":"m","input":"x","voice":"v","stream_format":"sse"}`),
			JSONBody(`{"model":"m","input":"x","voice":"v","stream_format":"audio"}`),
			"data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\n",
			"data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":2,\"output_tokens\":3," +
				"\"total_tokens\":5}}\n\n", 5,
		},
	}
}

// ForEachServiceRequest runs a test for each of ServiceRequests.
func ForEachServiceRequest(t *testing.T, test func(t *testing.T, w ServiceRequest)) {
	for _, w := range ServiceRequests(t) {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}
