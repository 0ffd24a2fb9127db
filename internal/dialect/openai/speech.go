package openai

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Speech passes speech requests on; the audio comes back as it is.
type Speech struct{}

// Call passes the body on.
func (Speech) Call(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return dialect.PassJSON(req, to, call, "*/*", call.Edits[:0], dialect.Field{})
}

// Reply is asked only for an answer that is no audio, and so never a good one.
func (Speech) Reply(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	reply.Doc.AllowDuplicateKeys = true
	if reply.Doc.Parse(answer.Body) == nil {
		if err := dialect.FailureIn(reply.Doc.Root()); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no audio", dialect.ErrInvalid)
}

// AsksForEvents reports whether the client wants the audio as events.
func (Speech) AsksForEvents(req *schema.Request) bool {
	return string(req.Field("stream_format").Text()) == "sse"
}

// PassEvents reads a stream of pieces of audio.
func (Speech) PassEvents(model string, body io.Reader) dialect.FramedEvents {
	return newPassedEvents(model, body)
}

// BinaryType returns the content type of audio.
func (Speech) BinaryType(said string, req *schema.Request, first []byte) string {
	return audioType(said, req.AudioFormat(), first)
}

// audioType returns the content type of audio: what its first bytes show, else
// what the backend said, else what was asked for. Backends are known to send
// another format than they were asked for, and to label it wrongly.
func audioType(said, asked string, first []byte) string {
	for _, magic := range []struct{ start, contentType string }{
		{"RIFF", "audio/wav"}, {"ID3", "audio/mpeg"}, {"OggS", "audio/ogg"}, {"fLaC", "audio/flac"},
	} {
		if bytes.HasPrefix(first, []byte(magic.start)) {
			return magic.contentType
		}
	}
	// Callers may ask for the audio as events.
	if strings.HasPrefix(said, "audio/") || strings.HasPrefix(said, "text/event-stream") {
		return said
	}
	switch strings.ToLower(asked) {
	case "mp3":
		return "audio/mpeg"
	case "opus":
		return "audio/ogg"
	case "aac", "flac", "wav", "pcm":
		return "audio/" + strings.ToLower(asked)
	}
	return "application/octet-stream"
}
