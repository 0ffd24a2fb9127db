package simulator

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// answerTranscription serves POST /v1/audio/transcriptions.
func answerTranscription(x *exchange) {
	if !x.hasForm() || !x.serves(x.form.value("model")) {
		return
	}
	files := x.form.files["file"]
	if len(files) == 0 || files[0].size == 0 {
		x.fail(http.StatusBadRequest, *invalidRequest("file", "missing_required_parameter",
			"'file' is missing or empty."))
		return
	}
	t := newTranscript(x, files[0])
	switch format := x.form.value("response_format"); format {
	case "", "json":
		out := appendString([]byte(`{"text":`), t.text())
		x.sendJSON(x.withUsage(out, t.usage()))
	case "verbose_json":
		out := t.verbose(slices.Contains(x.form.values["timestamp_granularities"], "word"))
		x.sendJSON(x.withUsage(out, t.usage()))
	case "diarized_json":
		x.sendJSON(x.withUsage(t.diarized(), t.usage()))
	case "text":
		x.send(http.StatusOK, "text/plain; charset=utf-8", []byte(t.text()+"\n"))
	case "srt":
		x.send(http.StatusOK, "text/plain; charset=utf-8", t.subtitles("", ',', true))
	case "vtt":
		x.send(http.StatusOK, "text/plain; charset=utf-8", t.subtitles("WEBVTT\n\n", '.', false))
	default:
		x.refuse("response_format", "'response_format' must be one of json, verbose_json, diarized_json, text, srt, "+
			"vtt.")
	}
}

// hasForm reports whether the request is a form. If not, it answers with an error.
func (x *exchange) hasForm() bool {
	switch {
	case x.form == nil:
		x.fail(http.StatusBadRequest, *invalidRequest("", "invalid_form", "The body must be multipart/form-data."))
		return false
	case x.form.problem != "":
		x.fail(http.StatusBadRequest, *invalidRequest("", "invalid_form", x.form.problem))
		return false
	}
	return true
}

// transcript is a transcription. The simulator does not decode the audio; the text
// describes the uploaded file.
type transcript struct {
	sentences []string
	language  string
	seconds   float64
}

func newTranscript(x *exchange, file *upload) *transcript {
	r := inspect(file)
	kind := r.format
	if r.details != "" {
		kind += " (" + r.details + ")"
	}
	length := fmt.Sprintf("It lasts %.2f seconds", r.seconds)
	if !r.exact {
		length = fmt.Sprintf("It may last about %.1f seconds", r.seconds)
	}
	t := &transcript{language: x.form.value("language"), seconds: r.seconds}
	if t.language == "" {
		t.language = "english"
	}
	if x.step.Text != "" {
		t.sentences = []string{x.step.Text}
		return t
	}
	t.sentences = []string{
		"你好, this is " + x.backend.options.Name + ", a simulated backend, and no model listened.",
		"The file has " + strconv.FormatInt(file.size, 10) + " bytes of format " + kind + ".",
		length + ".",
	}
	return t
}

func (t *transcript) text() string { return strings.Join(t.sentences, " ") }

// times returns when a sentence begins and ends: all sentences have the same length.
func (t *transcript) times(i int) (start, end float64) {
	share := t.seconds / float64(len(t.sentences))
	return share * float64(i), share * float64(i+1)
}

func (t *transcript) verbose(words bool) []byte {
	out := appendString([]byte(`{"task":"transcribe","language":`), t.language)
	out = appendSeconds(append(out, `,"duration":`...), t.seconds)
	out = appendString(append(out, `,"text":`...), t.text())
	out = append(out, `,"segments":[`...)
	for i, sentence := range t.sentences {
		if i > 0 {
			out = append(out, ',')
		}
		start, end := t.times(i)
		out = strconv.AppendInt(append(out, `{"id":`...), int64(i), 10)
		out = append(out, `,"seek":0,"start":`...)
		out = appendSeconds(append(appendSeconds(out, start), `,"end":`...), end)
		out = appendString(append(out, `,"text":`...), " "+sentence)
		out = append(out, `,"tokens":[`...)
		for n := range countTokens(sentence) {
			if n > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, int64(50364+n), 10)
		}
		out = append(out, `],"temperature":0.0,"avg_logprob":-0.25,"compression_ratio":1.25,"no_speech_prob":0.01}`...)
	}
	out = append(out, ']')
	if words {
		out = t.appendWords(out)
	}
	return out
}

// diarized writes the transcript with speakers; there is only one.
func (t *transcript) diarized() []byte {
	out := appendSeconds([]byte(`{"task":"transcribe","duration":`), t.seconds)
	out = appendString(append(out, `,"text":`...), t.text())
	out = append(out, `,"segments":[`...)
	for i, sentence := range t.sentences {
		if i > 0 {
			out = append(out, ',')
		}
		start, end := t.times(i)
		out = strconv.AppendInt(append(out, `{"type":"transcript.text.segment","id":"seg_`...), int64(i), 10)
		out = appendSeconds(append(out, `","start":`...), start)
		out = appendSeconds(append(out, `,"end":`...), end)
		out = appendString(append(out, `,"text":`...), " "+sentence)
		out = append(out, `,"speaker":"A"}`...)
	}
	return append(out, ']')
}

func (t *transcript) appendWords(out []byte) []byte {
	words := strings.Fields(t.text())
	share := t.seconds / float64(len(words))
	out = append(out, `,"words":[`...)
	for i, word := range words {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(append(out, `{"word":`...), word)
		out = appendSeconds(append(out, `,"start":`...), share*float64(i))
		out = append(appendSeconds(append(out, `,"end":`...), share*float64(i+1)), '}')
	}
	return append(out, ']')
}

// subtitles writes SRT, or WebVTT with its head and its other decimal mark.
func (t *transcript) subtitles(head string, mark byte, numbered bool) []byte {
	out := []byte(head)
	for i, sentence := range t.sentences {
		if numbered {
			out = append(strconv.AppendInt(out, int64(i+1), 10), '\n')
		}
		start, end := t.times(i)
		out = append(appendClock(out, start, mark), " --> "...)
		out = append(appendClock(out, end, mark), '\n')
		out = append(append(out, sentence...), "\n\n"...)
	}
	return out
}

func (t *transcript) usage() string {
	return fmt.Sprintf(`{"type":"duration","seconds":%d}`, int64(math.Ceil(t.seconds)))
}

// appendClock adds a time as hours, minutes, seconds and thousandths.
func appendClock(out []byte, seconds float64, mark byte) []byte {
	ms := int64(math.Round(seconds * 1000))
	return fmt.Appendf(out, "%02d:%02d:%02d%c%03d", ms/3600000, ms/60000%60, ms/1000%60, mark, ms%1000)
}

func appendSeconds(out []byte, seconds float64) []byte {
	return strconv.AppendFloat(out, math.Round(seconds*100)/100, 'f', -1, 64)
}
