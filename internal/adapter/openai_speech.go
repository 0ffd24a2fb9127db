package adapter

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// openAISpeech passes speech requests on; the audio comes back as it is.
type openAISpeech struct{}

// Call passes the body on.
func (openAISpeech) Call(req *schema.Request, to *Target, call *wire.Call) error {
	return passJSON(req, to, call, "*/*", call.Edits[:0], field{})
}

// Reply is asked only for an answer that is no audio, and so never a good one.
func (openAISpeech) Reply(_ *schema.Request, answer Answer, reply *Reply) error {
	reply.doc.AllowDuplicateKeys = true
	if reply.doc.Parse(answer.Body) == nil {
		if err := complaint(reply.doc.Root()); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no audio", ErrInvalid)
}

// AudioType returns the content type of audio: what its first bytes show, else
// what the backend said, else what was asked for. Backends are known to send
// another format than they were asked for, and to label it wrongly.
func AudioType(said, asked string, first []byte) string {
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
