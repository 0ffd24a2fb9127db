package simulator

import (
	"bytes"
	_ "embed" // the word in its formats
	"encoding/binary"
	"net/http"
	"slices"
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

// answerSpeech serves POST /v1/audio/speech: the same tone for every word, each
// sent when it is made.
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
	words := countTokens(request.Input)
	contentType, head, word := voice(request.ResponseFormat, words, speed)
	if contentType == "" {
		x.refuse("response_format", "'response_format' must be one of mp3, opus, aac, flac, wav, pcm.")
		return
	}
	if x.step.Plain {
		x.send(http.StatusOK, contentType, append(head, bytes.Repeat(word, words)...))
		return
	}
	s := x.streamAs(asBytes, contentType)
	for i := range words {
		if !s.event(append(head, word...)) {
			return
		}
		if head = nil; i == words-1 {
			s.done("", "")
		}
	}
}

// One spoken word, in each format that is not made from the samples of the WAV file:
// a tone of a quarter of a second, and as much silence in AAC and Opus.
var (
	//go:embed media/word.wav
	wordWAV []byte
	//go:embed media/word.mp3
	wordMP3 []byte
	//go:embed media/word.flac
	wordFLAC []byte
	//go:embed media/word.ogg
	wordOpus []byte
	//go:embed media/word.aac
	wordAAC []byte
)

const (
	sampleRate    = 24000
	wavHeadLength = 44
	flacHead      = 42 // the mark, and the description of a stream of unknown length
)

// voice returns the beginning of an audio file and the sound of each word in it. The
// frames of MP3, AAC and FLAC and the streams of Ogg may follow each other. Only samples
// are spoken at another speed. The type is empty where the format is not known.
func voice(format string, words int, speed float64) (contentType string, head, word []byte) {
	switch strings.ToLower(format) {
	case "", "mp3":
		return "audio/mpeg", nil, wordMP3
	case "flac":
		return "audio/flac", slices.Clone(wordFLAC[:flacHead]), wordFLAC[flacHead:]
	case "opus":
		return "audio/ogg", nil, wordOpus
	case "aac":
		return "audio/aac", nil, wordAAC
	case "pcm":
		return "audio/pcm", nil, samples(speed)
	case "wav":
		word = samples(speed)
		return "audio/wav", wavHead(words * len(word)), word
	}
	return "", nil, nil
}

// samples returns a word as 16-bit numbers: the recorded one over and over, for as long
// as it takes at that speed.
func samples(speed float64) []byte {
	recorded := wordWAV[wavHeadLength:]
	length := 2 * int(float64(len(recorded)/2)/speed)
	return bytes.Repeat(recorded, length/len(recorded)+1)[:length]
}

// wavHead begins a WAV file with so many bytes of samples.
func wavHead(length int) []byte {
	head := slices.Clone(wordWAV[:wavHeadLength])
	binary.LittleEndian.PutUint32(head[4:], uint32(wavHeadLength-8+length))
	binary.LittleEndian.PutUint32(head[wavHeadLength-4:], uint32(length))
	return head
}
