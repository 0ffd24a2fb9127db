package simulator

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// longestSpeech is in characters, as OpenAI has it.
const longestSpeech = 4096

// speechRequest is a speech request in OpenAI's dialect.
type speechRequest struct {
	Model          string         `json:"model"`
	Input          string         `json:"input"`
	Voice          jsontext.Value `json:"voice"`
	ResponseFormat string         `json:"response_format"`
	Speed          *float64       `json:"speed"`
}

// answerSpeech serves POST /v1/audio/speech: a tone for every word, each sent
// when it is made.
func answerSpeech(x *exchange) {
	var request speechRequest
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	speed := 1.0
	if request.Speed != nil {
		speed = *request.Speed
	}
	switch {
	case request.Input == "":
		x.refuse("input", "'input' must not be empty.")
		return
	case utf8.RuneCountInString(request.Input) > longestSpeech:
		x.refuse("input", "'input' may have at most "+strconv.Itoa(longestSpeech)+" characters.")
		return
	case given(request.Voice) == nil:
		x.refuse("voice", "'voice' is missing.")
		return
	case speed < 0.25 || speed > 4:
		x.refuse("speed", "'speed' must be between 0.25 and 4.")
		return
	}
	audio, ok := newAudio(request.ResponseFormat, melodyOf(request.Input, speed))
	if !ok {
		x.refuse("response_format", "'response_format' must be one of mp3, opus, aac, flac, wav, pcm.")
		return
	}
	if x.step.Plain {
		x.send(http.StatusOK, audio.contentType, audio.all())
		return
	}
	s := x.streamAs(asBytes, audio.contentType)
	for s.event(audio.next()) {
		if len(audio.melody) == 0 {
			s.done("", "")
			return
		}
	}
}

// audio is a melody in a format, made note by note.
type audio struct {
	contentType string
	melody      []note
	head        []byte
	appendNote  func(out []byte, n note, first int) []byte
	played      int // beats
}

func newAudio(format string, melody []note) (*audio, bool) {
	a := &audio{melody: melody}
	samples := beatsOf(melody) * beat
	switch strings.ToLower(format) {
	case "", "mp3":
		a.contentType = "audio/mpeg"
		a.appendNote = func(out []byte, n note, _ int) []byte { return appendMP3(out, n) }
	case "flac":
		a.contentType, a.head = "audio/flac", flacHeader(samples)
		a.appendNote = appendFLAC
	case "pcm":
		a.contentType = "audio/pcm"
		a.appendNote = func(out []byte, n note, _ int) []byte { return appendPCM(out, n.samples()) }
	case "opus":
		a.contentType, a.head = "audio/ogg", opusHeader()
		total := beatsOf(melody)
		a.appendNote = func(out []byte, n note, first int) []byte { return appendOpus(out, n, first, first+n.beats == total) }
	case "aac":
		a.contentType, a.appendNote = "audio/aac", appendAAC
	case "wav":
		a.contentType, a.head = "audio/wav", wavHeader(samples)
		a.appendNote = func(out []byte, n note, _ int) []byte { return appendPCM(out, n.samples()) }
	default:
		return nil, false
	}
	return a, true
}

// next returns the next piece of the file.
func (a *audio) next() []byte {
	n := a.melody[0]
	out := a.appendNote(a.head, n, a.played)
	a.head, a.melody, a.played = nil, a.melody[1:], a.played+n.beats
	return out
}

func (a *audio) all() []byte {
	var out []byte
	for len(a.melody) > 0 {
		out = append(out, a.next()...)
	}
	return out
}
