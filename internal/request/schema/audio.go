package schema

import (
	"math"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// ParseSpeech reads and checks a speech request.
func (r *Request) ParseSpeech(body []byte) error {
	if err := r.parse(TTS, body, SpeechFields); err != nil {
		return err
	}
	voice := r.Field("voice")
	if !voice.Given() {
		return MissingParameter("voice")
	}
	if voice.Kind() == jsonscan.Object { // it names a custom voice
		return nil
	}
	return CheckText("voice", voice)
}

// AudioFormat returns the format that a speech request asks for.
func (r *Request) AudioFormat() string {
	if v := r.Field("response_format"); v.Given() {
		return string(v.Text())
	}
	return "mp3"
}

// ParseTranscription checks a transcription form.
func (r *Request) ParseTranscription(form *Form) error {
	if err := r.parseForm(STT, form, TranscriptionFields); err != nil {
		return err
	}
	if !form.HasFile("file") {
		return MissingParameter("file")
	}
	if format, ok := form.Value("response_format"); ok && format != "" {
		switch format {
		case "json", "verbose_json", "text", "srt", "vtt", "diarized_json":
		default:
			return BadField("response_format", "field.one_of", "known", "json, verbose_json, text, srt, vtt")
		}
	}
	if value, ok := form.Value("temperature"); ok && value != "" {
		if f, err := strconv.ParseFloat(value, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return BadField("temperature", "value.number")
		}
	}
	return nil
}

// ParseTranslation checks a form that asks for a transcript in English.
func (r *Request) ParseTranslation(form *Form) error {
	err := r.ParseTranscription(form)
	r.Door = DoorTranslations
	return err
}

// TranscriptFormat returns the format that a transcription request asks for.
func (r *Request) TranscriptFormat() string {
	if format, ok := r.Form.Value("response_format"); ok && format != "" {
		return format
	}
	return "json"
}
