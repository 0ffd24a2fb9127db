package main

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

func TestSpeechFormats(t *testing.T) {
	r, _ := startService(t)
	for format, want := range map[string]struct{ contentType, start string }{
		"":     {"audio/mpeg", "\xff\xf3"},
		"mp3":  {"audio/mpeg", "\xff\xf3"},
		"wav":  {"audio/wav", "RIFF"},
		"flac": {"audio/flac", "fLaC"},
		"pcm":  {"audio/pcm", ""},
		"opus": {"audio/wav", "RIFF"}, // the simulator has no encoder; what it sends is labelled as what it is
	} {
		body := `{"model":"m","input":"one two three","voice":"v"}`
		if format != "" {
			body = strings.TrimSuffix(body, "}") + `,"response_format":"` + format + `"}`
		}
		answer := r.post("/v1/audio/speech", body).succeeds(t)
		if got := answer.header.Get("Content-Type"); got != want.contentType || len(answer.body) < 1000 || !strings.HasPrefix(answer.body, want.start) {
			t.Errorf("%q: %s, %d bytes that begin with %q", format, got, len(answer.body), answer.body[:min(4, len(answer.body))])
		}
		if want.start == "RIFF" {
			checkWAV(t, answer.body)
		}
	}
}

// checkWAV checks that a file is a WAV whose head tells the truth.
func checkWAV(t *testing.T, file string) {
	t.Helper()
	data := strings.Index(file, "data")
	if len(file) < 44 || file[8:12] != "WAVE" || data < 0 {
		t.Fatalf("no WAV: %.60q", file)
	}
	whole := endian.LittleEndian.Uint32([]byte(file[4:]))
	samples := endian.LittleEndian.Uint32([]byte(file[data+4:]))
	if int(whole) != len(file)-8 || int(samples) != len(file)-data-8 {
		t.Errorf("the head says %d and %d, the file has %d bytes", whole, samples, len(file))
	}
}

// A backend that labels audio as nothing in particular is labelled by what was
// asked for.
func TestSpeechThatSaysNotWhatItIs(t *testing.T) {
	for format, want := range map[string]string{
		"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm",
	} {
		r, _ := startService(t, simulator.Step{Body: "no magic bytes", Header: http.Header{"Content-Type": {"application/octet-stream"}}})
		answer := r.post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","response_format":"`+format+`"}`).succeeds(t)
		if got := answer.header.Get("Content-Type"); got != want || answer.body != "no magic bytes" {
			t.Errorf("%s: %s, %q", format, got, answer.body)
		}
	}
}

// Audio that was asked for as events is labelled as events.
func TestSpeechAsEvents(t *testing.T) {
	const events = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\ndata: {\"type\":\"speech.audio.done\"}\n\n"
	r, _ := startService(t, simulator.Step{Body: events})
	answer := r.post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","stream_format":"sse"}`).succeeds(t)
	if got := answer.header.Get("Content-Type"); got != "text/event-stream" || answer.body != events {
		t.Errorf("%s: %q", got, answer.body)
	}
}

// The first bytes are with the client while the backend still speaks.
func TestSpeechIsStreamed(t *testing.T) {
	r, b := startService(t, simulator.Step{Stop: simulator.StopStall, After: 2})
	ctx, cancel := context.WithCancel(deadline(t))
	response := r.open(ctx, http.MethodPost, "/v1/audio/speech", `{"model":"m","input":"a b c d e f g h","voice":"v","response_format":"wav"}`)
	defer response.Body.Close()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(response.Body, head); err != nil || !bytes.HasPrefix(head, []byte("RIFF")) {
		t.Fatalf("%v after %.4q", err, head)
	}
	if stats := b.Stats(); stats.InFlight != 1 || stats.Ended != 0 {
		t.Errorf("the backend is done already: %+v", stats)
	}
	if response.ContentLength >= 0 {
		t.Errorf("a length of %d is promised", response.ContentLength)
	}
	cancel()
	if err := b.WaitCancelled(deadline(t), 1); err != nil {
		t.Error(err)
	}
	i := r.serving(schema.TTS)[0]
	eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
	if success, failure, cancelled := outcomes(i); success != 0 || failure != 0 || cancelled != 1 {
		t.Errorf("outcomes %d %d %d, want one cancelled", success, failure, cancelled)
	}
}

// Audio that breaks off must not look complete, and nothing but audio may stand
// in it.
func TestSpeechThatBreaksOff(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"reset":             {Stop: simulator.StopReset, After: 3},
		"closed":            {Stop: simulator.StopClose, After: 3},
		"with a length":     {Plain: true, Stop: simulator.StopClose, AfterBytes: 5000},
		"silent":            {Stop: simulator.StopStall, After: 3},
		"reset with length": {Plain: true, Stop: simulator.StopReset, AfterBytes: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, step)
			r := startGateway(t, serviceYAML("tts", instance("m", b.URL()))+"limits: {idle-timeout: 300ms}\n")
			answer := r.post("/v1/audio/speech", `{"model":"m","input":"a b c d e f g h","voice":"v","response_format":"pcm"}`)
			if answer.status != http.StatusOK || answer.err == nil || errors.Is(answer.err, io.EOF) && !errors.Is(answer.err, io.ErrUnexpectedEOF) {
				t.Errorf("status %d, %d bytes, ended with %v", answer.status, len(answer.body), answer.err)
			}
			if strings.Contains(answer.body, `"error"`) {
				t.Error("an error is in the audio")
			}
			i := r.serving(schema.TTS)[0]
			eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failure, _ := outcomes(i); success != 0 || failure != 1 {
				t.Errorf("outcomes %d %d, want one failure", success, failure)
			}
		})
	}
}

// What is no audio is a failure, whatever its status, and goes to the sibling.
func TestSpeechThatIsNoAudio(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"error inside a 200": {Body: simulator.ErrorObject("no voice", "t", "c")},
		"JSON":               {Body: `{"audio":"none"}`},
		"page":               {Body: simulator.HTMLPage},
		"nothing":            {NoBody: true, Header: http.Header{"Content-Type": {"audio/mpeg"}}},
		"500":                {Status: http.StatusInternalServerError},
		"reset":              {Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := startBackend(t), startBackend(t)
			a.ScriptForever(step)
			alone := startGateway(t, serviceYAML("tts", instance("m", a.URL())))
			answer := alone.do(http.MethodPost, "/v1/audio/speech", speakHi, "Accept", "application/octet-stream")
			status := http.StatusBadGateway
			if step.Status != 0 {
				status = step.Status
			}
			answer.failsWith(t, status, "api_error", "upstream_error", "")
			r := startGateway(t, serviceYAML("tts", instance("m", a.URL()), instance("m", b.URL())))
			answer = r.post("/v1/audio/speech", speakHi).succeeds(t)
			if answer.header.Get("Content-Type") != "audio/mpeg" || answer.header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%s after %s attempts", answer.header.Get("Content-Type"), answer.header.Get("X-Router-Attempts"))
			}
		})
	}
}

func TestTranscriptionFormats(t *testing.T) {
	r, _ := startService(t)
	wav := r.post("/v1/audio/speech", `{"model":"m","input":"one two three","voice":"v","response_format":"wav"}`).succeeds(t).body
	file := upload("file", "speech.wav", "audio/wav", wav)
	for format, want := range map[string]struct{ contentType, start, has string }{
		"":             {"application/json", `{"text":"`, "WAV"},
		"json":         {"application/json", `{"text":"`, "WAV"},
		"verbose_json": {"application/json", `{"task":"transcribe"`, `"segments":[{`},
		"text":         {"text/plain; charset=utf-8", "你好", "WAV"},
		"srt":          {"text/plain; charset=utf-8", "1\n00:00:00,000 --> ", "WAV"},
		"vtt":          {"text/plain; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> ", "WAV"},
	} {
		parts := []part{field("model", "m"), file}
		if format != "" {
			parts = append(parts, field("response_format", format))
		}
		answer := r.postForm("/v1/audio/transcriptions", parts...).succeeds(t)
		if got := answer.header.Get("Content-Type"); got != want.contentType {
			t.Errorf("%q: Content-Type %s", format, got)
		}
		if !strings.HasPrefix(answer.body, want.start) || !strings.Contains(answer.body, want.has) {
			t.Errorf("%q: %s", format, answer.body)
		}
	}
}

// The order of the fields is free, lists are written in two ways, and what the
// gateway does not know reaches the backend as it came.
func TestTranscriptionForms(t *testing.T) {
	const wav = "RIFF\x00\x01\xff\r\n--not-a-boundary\r\n"
	for name, parts := range map[string][]part{
		"model first":     {field("model", "m"), upload("file", "a.wav", "audio/wav", wav)},
		"model last":      {upload("file", "a.wav", "audio/wav", wav), field("language", "de"), field("model", "m")},
		"lists":           {upload("file", "a.wav", "audio/wav", wav), field("timestamp_granularities[]", "word"), field("timestamp_granularities[]", "segment"), field("model", "m"), field("response_format", "verbose_json")},
		"unknown fields":  {field("vendor", "ü\r\n\"x\""), field("empty", ""), field("model", "m"), upload("file", "a.wav", "audio/wav", wav), field("vendor", "again")},
		"octet stream":    {field("model", "m"), upload("file", "blob", "application/octet-stream", wav)},
		"odd name":        {field("model", "m"), upload("file", `o"d d/ü.wav`, "audio/wav", wav)},
		"temperature":     {field("model", "m"), field("temperature", "0.2"), field("prompt", "names"), upload("file", "a.wav", "audio/wav", wav)},
		"larger than 64K": {upload("file", "a.wav", "audio/wav", wav+strings.Repeat("\x00\xff", 100_000)), field("model", "m")},
		"exactly 64K":     {upload("file", "a.wav", "audio/wav", strings.Repeat("x", 64<<10)), field("model", "m")},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := startService(t)
			r.postForm("/v1/audio/transcriptions", parts...).succeeds(t)
			got := partsOf(t, onlyRequest(t, b))
			if len(got) != len(parts) {
				t.Fatalf("%d parts, want %d: %.300q", len(got), len(parts), got)
			}
			for i := range got {
				want := parts[i]
				if strings.ContainsAny(want.filename, `"/`) {
					want.filename = got[i].filename // escaped in the way of browsers
				}
				if got[i] != want {
					t.Errorf("part %d is %.300q, want %.300q", i, got[i], want)
				}
			}
		})
	}
	t.Run("no content type", func(t *testing.T) {
		r, b := startService(t)
		r.postForm("/v1/audio/transcriptions", upload("file", "a.wav", "", wav), field("model", "m")).succeeds(t)
		if got := partsOf(t, onlyRequest(t, b))[0]; got.value != wav || got.contentType != "application/octet-stream" {
			t.Errorf("part %q", got)
		}
	})
	t.Run("no filename", func(t *testing.T) {
		for _, size := range []int{10, 3 << 20} {
			r, b := startService(t)
			content := strings.Repeat("w", size)
			r.postForm("/v1/audio/transcriptions", part{name: "file", value: content}, field("model", "m")).succeeds(t)
			if got := partsOf(t, onlyRequest(t, b))[0]; got.value != content || got.filename == "" {
				t.Errorf("%d bytes as %q", len(got.value), got.filename)
			}
		}
	})
	t.Run("the backend's name of the model", func(t *testing.T) {
		b := startBackend(t)
		r := startGateway(t, serviceYAML("stt", instance("m", b.URL(), "upstream-model: whisper-large", "api-key: k-1", "headers: {X-Own: h}")))
		r.postForm("/v1/audio/transcriptions", upload("file", "a.wav", "audio/wav", wav), field("model", "m")).succeeds(t)
		request := onlyRequest(t, b)
		if got := partsOf(t, request)[1]; got != field("model", "whisper-large") {
			t.Errorf("part %q", got)
		}
		if request.Header.Get("Authorization") != "Bearer k-1" || request.Header.Get("X-Own") != "h" {
			t.Errorf("headers %v", request.Header)
		}
	})
}

func TestTranscriptionFormBoundaries(t *testing.T) {
	r, _ := startService(t)
	const parts = "--%b\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" +
		"--%b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nabc\r\n--%b--\r\n"
	for name, test := range map[string]struct{ contentType, boundary string }{
		"plain":         {"multipart/form-data; boundary=abc", "abc"},
		"quoted":        {`multipart/form-data; boundary="abc"`, "abc"},
		"quoted, odd":   {`multipart/form-data; boundary="a:b c'(d)?"`, "a:b c'(d)?"},
		"other letters": {"Multipart/Form-Data; Boundary=aBc", "aBc"},
		"with a charset": {
			"multipart/form-data; charset=utf-8; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", "----WebKitFormBoundary7MA4YWxkTrZu0gW",
		},
	} {
		body := strings.ReplaceAll(parts, "%b", test.boundary)
		answer := r.do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", test.contentType)
		if answer.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	// What stands before and after the form does not count; lines may end in LF.
	body := "preamble\r\n" + strings.ReplaceAll(parts, "%b", "abc") + "epilogue"
	r.do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=abc").succeeds(t)
}

func TestInvalidTranscriptions(t *testing.T) {
	r, b := startService(t)
	const missing, invalid = "missing_parameter", "invalid_value"
	for name, test := range map[string]struct {
		parts       []part
		code, param string
	}{
		"no model":              {[]part{recording()}, missing, "model"},
		"empty model":           {[]part{field("model", ""), recording()}, missing, "model"},
		"model as a file":       {[]part{upload("model", "m.txt", "text/plain", "m"), recording()}, missing, "model"},
		"no file":               {[]part{field("model", "m")}, missing, "file"},
		"no part at all":        {nil, missing, "model"},
		"file under other name": {[]part{field("model", "m"), upload("audio", "a.wav", "audio/wav", "x")}, missing, "file"},
		"unknown format":        {[]part{field("model", "m"), recording(), field("response_format", "docx")}, invalid, "response_format"},
		"temperature":           {[]part{field("model", "m"), recording(), field("temperature", "warm")}, invalid, "temperature"},
		"control in the model":  {[]part{field("model", "m\x01"), recording()}, invalid, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			r.postForm("/v1/audio/transcriptions", test.parts...).failsWith(t, http.StatusBadRequest, invalidRequest, test.code, test.param)
		})
	}
	t.Run("a file that nobody chose", func(t *testing.T) {
		body := "--x\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" +
			"--x\r\nContent-Disposition: form-data; name=file; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--x--\r\n"
		r.do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=x").
			failsWith(t, http.StatusBadRequest, invalidRequest, missing, "file")
	})
	for name, body := range map[string]string{
		"nothing":           "",
		"no boundary":       "hello",
		"cut in a head":     "--x\r\nContent-Disposition: form-data; na",
		"cut in a value":    "--x\r\nContent-Disposition: form-data; name=model\r\n\r\nm",
		"cut after a value": "--x\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n--x",
		"broken head":       "--x\r\nno colon\r\n\r\nm\r\n--x--\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer := r.do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=x")
			answer.failsWith(t, http.StatusBadRequest, invalidRequest, "invalid_body", "")
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// Errors of a backend that transcribes are errors like all others.
func TestTranscriptionsThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		step   simulator.Step
		format string
		status int
	}{
		"error inside a 200":   {simulator.Step{Body: simulator.ErrorObject("no", "t", "c")}, "json", 502},
		"error inside, text":   {simulator.Step{Body: simulator.ErrorText("no")}, "text", 502},
		"JSON in place of SRT": {simulator.Step{Body: `{"text":"hi"}`}, "srt", 502},
		"no text":              {simulator.Step{Body: `{"words":[]}`}, "json", 502},
		"page":                 {simulator.Step{Body: simulator.HTMLPage}, "text", 502},
		"refused":              {simulator.Step{Status: 422, Body: simulator.ErrorText("bad audio")}, "json", 422},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := startService(t, test.step)
			answer := r.postForm("/v1/audio/transcriptions", field("model", "m"), field("response_format", test.format), recording())
			kind := "api_error"
			if test.status < 500 {
				kind = invalidRequest
			}
			answer.failsWith(t, test.status, kind, "upstream_error", "")
		})
	}
	t.Run("text in place of JSON", func(t *testing.T) {
		r, _ := startService(t, simulator.Step{Body: "hello", Header: http.Header{"Content-Type": {"text/plain"}}})
		answer := r.postForm("/v1/audio/transcriptions", field("model", "m"), recording()).succeeds(t)
		if answer.body != `{"text":"hello"}` {
			t.Errorf("answer %s", answer.body)
		}
	})
}
