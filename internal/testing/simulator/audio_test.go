package simulator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func (r *rig) speak(rest string) reply {
	r.t.Helper()
	return r.post("/v1/audio/speech", `{"model":"m","voice":"any","input":"hello audible world"`+rest+`}`)
}

// loudest returns the highest of 16-bit samples.
func loudest(pcm []byte) int16 {
	peak := int16(0)
	for ; len(pcm) > 1; pcm = pcm[2:] {
		peak = max(peak, int16(binary.LittleEndian.Uint16(pcm)))
	}
	return peak
}

func TestSpeechIsAudibleWAV(t *testing.T) {
	r := newRig(t, Options{})
	got := r.speak(`,"response_format":"wav"`)
	if got.status != 200 || got.header.Get("Content-Type") != "audio/wav" || got.header.Get("Content-Length") != "" {
		t.Fatalf("got %d %v", got.status, got.header)
	}
	file := []byte(got.body)
	head, pcm := file[:44], file[44:]
	if string(head[:4]) != "RIFF" || string(head[8:16]) != "WAVEfmt " || string(head[36:40]) != "data" {
		t.Errorf("head %q", head)
	}
	little := binary.LittleEndian
	if got := []int{int(little.Uint32(head[4:])), int(little.Uint16(head[20:])), int(little.Uint16(head[22:])), int(little.Uint32(head[24:])),
		int(little.Uint32(head[28:])), int(little.Uint16(head[32:])), int(little.Uint16(head[34:])), int(little.Uint32(head[40:]))}; !slices.Equal(got,
		[]int{len(file) - 8, 1, 1, sampleRate, 2 * sampleRate, 2, 16, len(pcm)}) {
		t.Errorf("head says %v of %d bytes", got, len(file))
	}
	if peak := loudest(pcm); peak < 5000 {
		t.Errorf("peak %d", peak)
	}
	if again := r.speak(`,"response_format":"wav"`); again.body != got.body {
		t.Error("the same text sounds different")
	}
	if raw := r.speak(`,"response_format":"pcm"`); raw.body != string(pcm) || raw.header.Get("Content-Type") != "audio/pcm" {
		t.Errorf("pcm of %d bytes, %v", len(raw.body), raw.header)
	}
	seen := inspect(&upload{size: int64(len(file)), head: file})
	if want := float64(len(pcm)) / 2 / sampleRate; seen.seconds != want || !seen.exact {
		t.Errorf("heard %+v, want %v seconds", seen, want)
	}
}

func TestSpeechFormats(t *testing.T) {
	r := newRig(t, Options{})
	for _, test := range []struct{ format, contentType, start string }{
		{``, "audio/mpeg", "\xff\xf3"},
		{`,"response_format":"mp3"`, "audio/mpeg", "\xff\xf3"},
		{`,"response_format":"flac"`, "audio/flac", "fLaC"},
		{`,"response_format":"opus"`, "audio/ogg", "OggS"},
		{`,"response_format":"aac"`, "audio/aac", "\xff\xf1"},
	} {
		got := r.speak(test.format)
		if got.header.Get("Content-Type") != test.contentType || !strings.HasPrefix(got.body, test.start) {
			t.Errorf("%s: %v %.8q", test.format, got.header, got.body)
		}
	}
	for _, rest := range []string{`,"response_format":"midi"`, `,"speed":9`, `,"voice":null`, `,"input":""`, `,"input":"` + strings.Repeat("x", 5000) + `"`} {
		if got := r.speak(rest); got.status != 400 || !strings.HasPrefix(got.body, `{"error":{`) {
			t.Errorf("%.40s: %d", rest, got.status)
		}
	}
}

func TestSpeedChangesTheDuration(t *testing.T) {
	r := newRig(t, Options{})
	length := func(speed string) float64 {
		return float64(len(r.speak(`,"response_format":"pcm","speed":` + speed).body))
	}
	if slow, usual, fast := length("0.5"), length("1"), length("2"); slow < 1.9*usual || usual < 1.9*fast {
		t.Errorf("lengths %v %v %v", slow, usual, fast)
	}
}

// TestMP3FramesAreWhole reads the frames as a decoder finds them: header after
// header at the distance that bit rate and sampling rate give.
func TestMP3FramesAreWhole(t *testing.T) {
	frames := 0
	for rest := newRig(t, Options{}).speak("").body; len(rest) > 0; frames++ {
		if len(rest) < 96 || !strings.HasPrefix(rest, "\xff\xf3\x44\xc0") {
			t.Fatalf("frame %d begins with %x", frames, rest[:min(4, len(rest))])
		}
		rest = rest[96:]
	}
	if words := 3; frames == 0 || frames%words != 0 {
		t.Errorf("%d frames for %d words", frames, words)
	}
}

func TestSpeechObeysTheStep(t *testing.T) {
	whole := newRig(t, Options{}).speak(`,"response_format":"pcm"`).body
	first := len(samples(1))
	for _, test := range []struct {
		name   string
		step   Step
		length int
		err    error
	}{
		{"after a chunk", Step{Stop: StopClose, After: 1}, first, io.ErrUnexpectedEOF},
		{"after bytes", Step{Stop: StopClose, AfterBytes: 1000}, 1000, io.ErrUnexpectedEOF},
		{"ends properly but short", Step{Stop: StopEnd, AfterBytes: 99}, 99, nil},
		{"inside a chunk", Step{Stop: StopClose, MidEvent: true}, first / 2, io.ErrUnexpectedEOF},
		{"plain", Step{Plain: true}, len(whole), nil},
		{"plain after bytes", Step{Plain: true, Stop: StopClose, AfterBytes: 10}, 10, io.ErrUnexpectedEOF},
		{"in slices", Step{Slice: 1000}, len(whole), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.Script(test.step)
			got := r.speak(`,"response_format":"pcm"`)
			if len(got.body) != test.length || !errors.Is(got.err, test.err) || !strings.HasPrefix(whole, got.body) {
				t.Errorf("%d bytes of %d, %v", len(got.body), len(whole), got.err)
			}
		})
	}
}

func TestClientThatLeavesSpeechIsNoticed(t *testing.T) {
	r := newRig(t, Options{TokenDelay: 1 << 40})
	ctx, leave := context.WithCancel(waittest.Context(t))
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.URL()+"/v1/audio/speech",
		strings.NewReader(`{"model":"m","voice":"v","input":"a long story"}`))
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 96)); err != nil { // the first note is there
		t.Fatal(err)
	}
	leave()
	if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
		t.Fatal(err)
	}
}

// part is a field of a form, or a file if it has a name.
type part struct{ name, file, content string }

// formOf writes a form in the order of its parts.
func formOf(parts ...part) (contentType, body string) {
	var out bytes.Buffer
	form := multipart.NewWriter(&out)
	for _, p := range parts {
		if p.file == "" {
			_ = form.WriteField(p.name, p.content)
			continue
		}
		w, _ := form.CreateFormFile(p.name, p.file)
		_, _ = io.WriteString(w, p.content)
	}
	_ = form.Close()
	return form.FormDataContentType(), out.String()
}

func (r *rig) send(path, contentType string, body io.Reader) reply {
	r.t.Helper()
	request, err := http.NewRequestWithContext(waittest.Context(r.t), http.MethodPost, r.URL()+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := r.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(answer), err}
}

func (r *rig) sendForm(path string, parts ...part) reply {
	r.t.Helper()
	contentType, body := formOf(parts...)
	return r.send(path, contentType, strings.NewReader(body))
}

// oneSecond is a WAV file that lasts a second.
func oneSecond() string {
	return string(wavHead(2*sampleRate)) + strings.Repeat("\x01\x02", sampleRate)
}

func TestTranscriptionsSayWhatCame(t *testing.T) {
	text := "The file has 48044 bytes of format WAV (24000 Hz, 16 bit, 1 channel(s)). It lasts 1.00 seconds."
	for _, test := range []struct{ format, contentType, contains string }{
		{"", "application/json", text + `","usage":{"type":"duration","seconds":1}}`},
		{"json", "application/json", `{"text":"你好, this is simulator`},
		{"text", "text/plain; charset=utf-8", text + "\n"},
		{"srt", "text/plain; charset=utf-8", "\n\n3\n00:00:00,667 --> 00:00:01,000\nIt lasts"},
		{"vtt", "text/plain; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> 00:00:00.333\n你好"},
	} {
		t.Run(test.format, func(t *testing.T) {
			r := newRig(t, Options{})
			// Both orders: fields before and after the file.
			file, format, model := part{"file", "a.wav", oneSecond()}, part{"response_format", "", test.format}, part{"model", "", "m"}
			got := r.sendForm("/v1/audio/transcriptions", file, format, model)
			if got.status != 200 || got.header.Get("Content-Type") != test.contentType || !strings.Contains(got.body, test.contains) {
				t.Errorf("got %+v", got)
			}
			if other := r.sendForm("/v1/audio/transcriptions", model, format, file); other.body != got.body {
				t.Errorf("in another order: %s", other.body)
			}
		})
	}
}

func TestVerboseTranscription(t *testing.T) {
	r := newRig(t, Options{})
	got := r.sendForm("/v1/audio/transcriptions", part{"model", "", "m"}, part{"language", "", "fr"},
		part{"response_format", "", "verbose_json"}, part{"timestamp_granularities[]", "", "word"}, part{"file", "a.wav", oneSecond()})
	type span struct {
		ID         int
		Start, End float64
		Text, Word string
		Tokens     []int
	}
	reply := read[struct {
		Task, Language, Text string
		Duration             float64
		Segments, Words      []span
		Usage                struct{ Seconds int }
	}](t, got.body)
	joined := ""
	for _, segment := range reply.Segments {
		joined += segment.Text
		if len(segment.Tokens) == 0 || segment.End <= segment.Start {
			t.Errorf("segment %+v", segment)
		}
	}
	if strings.TrimSpace(joined) != reply.Text || reply.Segments[2].End != 1 || reply.Duration != 1 || reply.Usage.Seconds != 1 {
		t.Errorf("got %s", got.body)
	}
	if reply.Task != "transcribe" || reply.Language != "fr" || len(reply.Words) != len(strings.Fields(reply.Text)) {
		t.Errorf("got %s", got.body)
	}
}

func TestFormatsOfRecordings(t *testing.T) {
	streamed := wavHead(2 << 20)
	binary.LittleEndian.PutUint32(streamed[40:], 0xffffffff)
	for _, test := range []struct {
		name, head, format string
		seconds            float64
	}{
		{"wav of unknown length", string(streamed) + strings.Repeat("\x00", 2*sampleRate), "WAV", 1},
		{"wav with other chunks", "RIFF\x00\x00\x00\x00WAVELIST\x03\x00\x00\x00abc\x00" + oneSecond()[12:], "WAV", 1},
		{"wav cut in its head", "RIFF\x00\x00\x00\x00WAVE", "WAV", 12.0 / usualRate},
		{"mp3", "ID3" + strings.Repeat("x", usualRate-3), "MP3", 1},
		{"mp3 without a tag", "\xff\xfb\x90" + strings.Repeat("x", usualRate-3), "MP3", 1}, // 128 kbit/s
		{"ours", string(wordMP3), "MP3", 0.24},
		{"flac", "fLaC", "FLAC", 4.0 / usualRate},
		{"ogg", "OggS", "Ogg", 4.0 / usualRate},
		{"m4a", "\x00\x00\x00\x20ftypM4A ", "MP4", 12.0 / usualRate},
		{"webm", "\x1a\x45\xdf\xa3", "WebM", 4.0 / usualRate},
		{"anything", "hello", "unknown", 5.0 / usualRate},
	} {
		if got := inspect(&upload{size: int64(len(test.head)), head: []byte(test.head)}); got.format != test.format || got.seconds != test.seconds {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

func TestBadForms(t *testing.T) {
	contentType, whole := formOf(part{"model", "", "m"}, part{"file", "a.wav", oneSecond()})
	_, noFile := formOf(part{"model", "", "m"})
	for _, test := range []struct {
		name, contentType, body string
		code                    string
	}{
		{"JSON", "application/json", `{"model":"m"}`, "invalid_form"},
		{"cut", contentType, whole[:len(whole)/2], "invalid_form"},
		{"other boundary", "multipart/form-data; boundary=other", whole, "invalid_form"},
		{"no file", strings.Replace(contentType, boundaryOf(contentType), boundaryOf(noFile), 1), noFile, "missing_required_parameter"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{})
			got := r.send("/v1/audio/transcriptions", test.contentType, strings.NewReader(test.body))
			if got.status != 400 || !strings.Contains(got.body, `"code":"`+test.code+`"`) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// boundaryOf finds the boundary in a content type or at the start of a body.
func boundaryOf(text string) string {
	if _, found, ok := strings.Cut(text, "boundary="); ok {
		return found
	}
	line, _, _ := strings.Cut(text, "\r\n")
	return strings.TrimPrefix(line, "--")
}

func TestJournalKeepsTheFirstBytesOfForms(t *testing.T) {
	r := newRig(t, Options{Record: true, BodyCap: 40, Models: []string{"m"}, Behaviours: map[string]Behaviour{"down": {Step: Step{Status: 503}}}})
	contentType, body := formOf(part{"file", "a.wav", oneSecond()}, part{"model", "", "down"})
	if got := r.send("/v1/audio/transcriptions", contentType, strings.NewReader(body)); got.status != 503 {
		t.Errorf("the model of a form was not seen: %+v", got)
	}
	if got := r.Requests()[0]; string(got.Body) != body[:40] || got.BodyLength != len(body) {
		t.Errorf("kept %q of %d", got.Body, got.BodyLength)
	}
}

func TestLargeUploadCostsNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 64 MB")
	}
	const size = 64 << 20
	r := newRig(t, Options{})
	contentType, text := formOf(part{"file", "long.wav", "HERE"}, part{"model", "", "m"})
	before, after, _ := strings.Cut(text, "HERE")
	body := io.MultiReader(strings.NewReader(before), bytes.NewReader(wavHead(size-44)), io.LimitReader(zeros{}, size-44), strings.NewReader(after))
	var began, ended runtime.MemStats
	runtime.ReadMemStats(&began)
	got := r.send("/v1/audio/transcriptions", contentType, body)
	runtime.ReadMemStats(&ended)
	if got.status != 200 || !strings.Contains(got.body, fmt.Sprintf("%d bytes", size)) || !strings.Contains(got.body, "1398.10 seconds") {
		t.Errorf("got %+v", got)
	}
	// All that was allocated, kept or not.
	if grown := ended.TotalAlloc - began.TotalAlloc; grown > 8<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
