package openai

import (
	"bytes"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Speech passes speech requests on; the audio comes back as it is.
var Speech = &dialect.Adapter{
	Call: callSpeech, Reply: replySpeech, AsksForEvents: asksForEventsSpeech, PassEvents: newPassedEvents,
	BinaryType: binaryTypeSpeech,
}

// callSpeech passes the body on.
func callSpeech(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return dialect.PassJSON(req, to, call, "*/*", call.Edits[:0], dialect.Field{})
}

// replySpeech is asked only for an answer that is no audio, and so never a good one.
func replySpeech(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	reply.Doc.AllowDuplicateKeys = true
	if reply.Doc.Parse(answer.Body) == nil {
		if err := dialect.FailureIn(reply.Doc.Root()); err != nil {
			return err
		}
	}
	return dialect.Invalid("no audio")
}

// asksForEventsSpeech reports whether the client wants the audio as events.
func asksForEventsSpeech(req *schema.Request) bool {
	return string(req.Field("stream_format").Text()) == "sse"
}

// binaryTypeSpeech returns the content type of audio.
func binaryTypeSpeech(said string, req *schema.Request, first []byte) string {
	asked := ""
	if req.Field("response_format").Given() {
		asked = req.AudioFormat()
	}
	return audioType(said, asked, first)
}

// audioType returns the content type of audio: the type that its first bytes show, else
// the type of the format that the caller chose, else the type from the backend.
// Backends are known to send another format than they were asked for, and to label it
// wrongly.
func audioType(said, asked string, first []byte) string {
	if shown := shownType(asked, first); shown != "" {
		return shown
	}
	// Callers may ask for the audio as events.
	if strings.HasPrefix(said, "text/event-stream") {
		return said
	}
	labelled := strings.HasPrefix(said, "audio/")
	for _, f := range audioFormats() {
		if !strings.EqualFold(f.name, asked) {
			continue
		}
		subtype, _, _ := strings.Cut(strings.TrimPrefix(said, "audio/"), ";")
		if labelled && slices.Contains(f.subtypes, strings.ToLower(strings.TrimSpace(subtype))) {
			return said // in its own words, and perhaps with the sampling rate
		}
		return "audio/" + f.subtypes[0]
	}
	switch {
	case labelled:
		return said
	case asked == "":
		return "audio/mpeg" // MP3 is the default of the API
	}
	return "application/octet-stream"
}

// shownType returns the content type that the first bytes of audio show, or "". The
// samples of PCM may begin like a frame of MP3 or AAC, but not like a file.
func shownType(asked string, first []byte) string {
	for _, magic := range []struct{ start, contentType string }{
		{"RIFF", "audio/wav"}, {"ID3", "audio/mpeg"}, {"OggS", "audio/ogg"}, {"fLaC", "audio/flac"},
		{"\x1a\x45\xdf\xa3", "audio/webm"},
	} {
		if bytes.HasPrefix(first, []byte(magic.start)) {
			return magic.contentType
		}
	}
	if len(first) < 2 || first[0] != 0xff || strings.EqualFold(asked, "pcm") {
		return ""
	}
	switch {
	case first[1]&0xe6 == 0xe2: // MPEG layer III
		return "audio/mpeg"
	case first[1]&0xf6 == 0xf0: // ADTS
		return "audio/aac"
	}
	return ""
}

type audioFormat struct {
	name     string
	subtypes []string // the first is the one to use
}

func audioFormats() [6]audioFormat {
	return [...]audioFormat{
		{"mp3", []string{"mpeg", "mp3", "mpeg3", "x-mp3", "x-mpeg"}},
		{"opus", []string{"ogg", "opus", "webm"}},
		{"aac", []string{"aac", "aacp", "x-aac", "mp4", "x-m4a"}},
		{"flac", []string{"flac", "x-flac"}},
		{"wav", []string{"wav", "wave", "x-wav", "vnd.wave"}},
		{"pcm", []string{"pcm", "x-pcm", "l16", "basic", "raw", "x-raw"}},
	}
}
