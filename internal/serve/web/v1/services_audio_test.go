package v1_test

import (
	"bytes"
	"context"
	endian "encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestSpeechFormats(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartService(t)
	for format, want := range map[string]struct{ contentType, start string }{
		"":     {"audio/mpeg", "\xff\xf3"},
		"mp3":  {"audio/mpeg", "\xff\xf3"},
		"wav":  {"audio/wav", "RIFF"},
		"flac": {"audio/flac", "fLaC"},
		"pcm":  {"audio/pcm", ""},
		"opus": {"audio/ogg", "OggS"},
		"aac":  {"audio/aac", "\xff\xf1"},
	} {
		body := `{"model":"m","input":"one two three","voice":"v"}`
		if format != "" {
			body = strings.TrimSuffix(body, "}") + `,"response_format":"` + format + `"}`
		}
		answer := r.Post("/v1/audio/speech", body).Succeeds(t)
		if got := answer.Header.Get("Content-Type"); got != want.contentType || len(answer.Body) < 100 || !strings.HasPrefix(answer.Body, want.start) {
			t.Errorf("%q: %s, %d bytes that begin with %q", format, got, len(answer.Body), answer.Body[:min(4, len(answer.Body))])
		}
		if want.start == "RIFF" {
			checkWAV(t, answer.Body)
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

// If the audio itself does not show what it is, the reply has the content type of the
// requested format, whatever the backend says.
func TestSpeechHasTheTypeOfTheRequestedFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm",
	} {
		for _, said := range []string{"application/octet-stream", "audio/mpeg"} {
			r, _ := gatewaytest.StartService(t, simulator.Step{Body: "no magic bytes", Header: http.Header{"Content-Type": {said}}})
			answer := r.Post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","response_format":"`+format+`"}`).Succeeds(t)
			if got := answer.Header.Get("Content-Type"); got != want || answer.Body != "no magic bytes" {
				t.Errorf("%s of a backend that says %s: %s, %q", format, said, got, answer.Body)
			}
		}
	}
}

// Audio that was asked for as events is labelled as events.
func TestSpeechAsEvents(t *testing.T) {
	t.Parallel()
	const events = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\ndata: {\"type\":\"speech.audio.done\"}\n\n"
	r, _ := gatewaytest.StartService(t, simulator.Step{Body: events})
	answer := r.Post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","stream_format":"sse"}`).Succeeds(t)
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" || answer.Body != events {
		t.Errorf("%s: %q", got, answer.Body)
	}
}

// The first bytes are with the client while the backend still speaks.
func TestSpeechIsStreamed(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t, simulator.Step{Stop: simulator.StopStall, After: 2})
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	response := r.Open(ctx, http.MethodPost, "/v1/audio/speech", `{"model":"m","input":"a b c d e f g h","voice":"v","response_format":"wav"}`)
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
	if err := b.WaitCancelled(gatewaytest.Deadline(t), 1); err != nil {
		t.Error(err)
	}
	i := serving(r, schema.TTS)[0]
	gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
	if success, failure, cancelled := gatewaytest.Outcomes(i); success != 0 || failure != 0 || cancelled != 1 {
		t.Errorf("outcomes %d %d %d, want one cancelled", success, failure, cancelled)
	}
}

// Audio that breaks off must not look complete, and nothing but audio may stand
// in it.
func TestSpeechThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		step         simulator.Step
		status, code string
	}{
		"reset":             {simulator.Step{Stop: simulator.StopReset, After: 3}, "error", "upstream_stream_truncated"},
		"closed":            {simulator.Step{Stop: simulator.StopClose, After: 3}, "error", "upstream_stream_truncated"},
		"with a length":     {simulator.Step{Plain: true, Stop: simulator.StopClose, AfterBytes: 5000}, "error", "upstream_stream_truncated"},
		"silent":            {simulator.Step{Stop: simulator.StopStall, After: 3}, "timeout", "upstream_timeout"},
		"reset with length": {simulator.Step{Plain: true, Stop: simulator.StopReset, AfterBytes: 5000}, "error", "upstream_stream_truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t, row.step)
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("tts", gatewaytest.Instance("m", b.URL()))+gatewaytest.ShortTimeouts(row.step))
			answer := r.Post("/v1/audio/speech", `{"model":"m","input":"a b c d e f g h","voice":"v","response_format":"pcm"}`)
			if answer.Status != http.StatusOK || answer.Err == nil || errors.Is(answer.Err, io.EOF) && !errors.Is(answer.Err, io.ErrUnexpectedEOF) {
				t.Errorf("status %d, %d bytes, ended with %v", answer.Status, len(answer.Body), answer.Err)
			}
			if strings.Contains(answer.Body, `"error"`) {
				t.Error("an error is in the audio")
			}
			i := serving(r, schema.TTS)[0]
			gatewaytest.Eventually(t, "the call is settled", func() bool { return i.InFlight() == 0 })
			if success, failure, _ := gatewaytest.Outcomes(i); success != 0 || failure != 1 {
				t.Errorf("outcomes %d %d, want one failure", success, failure)
			}
			var calls map[string]any
			gatewaytest.Eventually(t, "the call is recorded", func() bool {
				calls = r.GetObject("/api/monitoring/calls")
				return len(gatewaytest.At(t, calls, "calls").([]any)) == 1
			})
			if code, status := gatewaytest.At(t, calls, "calls/0/errorCode"), gatewaytest.At(t, calls, "calls/0/status"); code != row.code || status != row.status {
				t.Errorf("recorded as %v with %v, want %s with %s", status, code, row.status, row.code)
			}
		})
	}
}

// What is no audio is a failure, whatever its status, and goes to the sibling.
func TestSpeechAnswersThatAreNotAudioAreErrors(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"error inside a 200": {Body: simulator.ErrorObject("no voice", "t", "c")},
		"JSON":               {Body: `{"audio":"none"}`},
		"page":               {Body: simulator.HTMLPage},
		"nothing":            {NoBody: true, Header: http.Header{"Content-Type": {"audio/mpeg"}}},
		"500":                {Status: http.StatusInternalServerError},
		"reset":              {Reset: true},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(step)
			alone := gatewaytest.Start(t, gatewaytest.ServiceYAML("tts", gatewaytest.Instance("m", a.URL())))
			answer := alone.Do(http.MethodPost, "/v1/audio/speech", speakHi, "Accept", "application/octet-stream")
			status := http.StatusBadGateway
			if step.Status != 0 {
				status = step.Status
			}
			answer.FailsWith(t, status, "api_error", "upstream_error", "")
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("tts", gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			answer = r.Post("/v1/audio/speech", speakHi).Succeeds(t)
			if answer.Header.Get("Content-Type") != "audio/mpeg" || answer.Header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%s after %s attempts", answer.Header.Get("Content-Type"), answer.Header.Get("X-Router-Attempts"))
			}
		})
	}
}

func TestTranscriptionFormats(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartService(t)
	wav := r.Post("/v1/audio/speech", `{"model":"m","input":"one two three","voice":"v","response_format":"wav"}`).Succeeds(t).Body
	file := gatewaytest.Upload("file", "speech.wav", "audio/wav", wav)
	for format, want := range map[string]struct{ contentType, start, has string }{
		"":              {"application/json", `{"text":"`, "WAV"},
		"json":          {"application/json", `{"text":"`, "WAV"},
		"verbose_json":  {"application/json", `{"task":"transcribe"`, `"segments":[{`},
		"text":          {"text/plain; charset=utf-8", "你好", "WAV"},
		"diarized_json": {"application/json", `{"task":"transcribe"`, `"speaker":"A"`},
		"srt":           {"text/plain; charset=utf-8", "1\n00:00:00,000 --> ", "WAV"},
		"vtt":           {"text/plain; charset=utf-8", "WEBVTT\n\n00:00:00.000 --> ", "WAV"},
	} {
		parts := []gatewaytest.Part{gatewaytest.Field("model", "m"), file}
		if format != "" {
			parts = append(parts, gatewaytest.Field("response_format", format))
		}
		answer := r.PostForm("/v1/audio/transcriptions", parts...).Succeeds(t)
		if got := answer.Header.Get("Content-Type"); got != want.contentType {
			t.Errorf("%q: Content-Type %s", format, got)
		}
		if !strings.HasPrefix(answer.Body, want.start) || !strings.Contains(answer.Body, want.has) {
			t.Errorf("%q: %s", format, answer.Body)
		}
	}
}

// The order of the fields is free, lists are written in two ways, and what the
// gateway does not know reaches the backend as it came.
func TestTranscriptionForms(t *testing.T) {
	t.Parallel()
	const wav = "RIFF\x00\x01\xff\r\n--not-a-boundary\r\n"
	for name, parts := range map[string][]gatewaytest.Part{
		"model first":     {gatewaytest.Field("model", "m"), gatewaytest.Upload("file", "a.wav", "audio/wav", wav)},
		"model last":      {gatewaytest.Upload("file", "a.wav", "audio/wav", wav), gatewaytest.Field("language", "de"), gatewaytest.Field("model", "m")},
		"lists":           {gatewaytest.Upload("file", "a.wav", "audio/wav", wav), gatewaytest.Field("timestamp_granularities[]", "word"), gatewaytest.Field("timestamp_granularities[]", "segment"), gatewaytest.Field("model", "m"), gatewaytest.Field("response_format", "verbose_json")},
		"unknown fields":  {gatewaytest.Field("vendor", "ü\r\n\"x\""), gatewaytest.Field("empty", ""), gatewaytest.Field("model", "m"), gatewaytest.Upload("file", "a.wav", "audio/wav", wav), gatewaytest.Field("vendor", "again")},
		"octet stream":    {gatewaytest.Field("model", "m"), gatewaytest.Upload("file", "blob", "application/octet-stream", wav)},
		"odd name":        {gatewaytest.Field("model", "m"), gatewaytest.Upload("file", `o"d d/ü.wav`, "audio/wav", wav)},
		"temperature":     {gatewaytest.Field("model", "m"), gatewaytest.Field("temperature", "0.2"), gatewaytest.Field("prompt", "names"), gatewaytest.Upload("file", "a.wav", "audio/wav", wav)},
		"larger than 64K": {gatewaytest.Upload("file", "a.wav", "audio/wav", wav+strings.Repeat("\x00\xff", 100_000)), gatewaytest.Field("model", "m")},
		"exactly 64K":     {gatewaytest.Upload("file", "a.wav", "audio/wav", strings.Repeat("x", 64<<10)), gatewaytest.Field("model", "m")},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := gatewaytest.StartService(t)
			r.PostForm("/v1/audio/transcriptions", parts...).Succeeds(t)
			got := partsOf(t, gatewaytest.OnlyRequest(t, b))
			if len(got) != len(parts) {
				t.Fatalf("%d parts, want %d: %.300q", len(got), len(parts), got)
			}
			for i := range got {
				want := parts[i]
				if strings.ContainsAny(want.Filename, `"/`) {
					want.Filename = got[i].Filename // escaped in the way of browsers
				}
				if got[i] != want {
					t.Errorf("part %d is %.300q, want %.300q", i, got[i], want)
				}
			}
		})
	}
	t.Run("no content type", func(t *testing.T) {
		r, b := gatewaytest.StartService(t)
		r.PostForm("/v1/audio/transcriptions", gatewaytest.Upload("file", "a.wav", "", wav), gatewaytest.Field("model", "m")).Succeeds(t)
		if got := partsOf(t, gatewaytest.OnlyRequest(t, b))[0]; got.Value != wav || got.ContentType != "application/octet-stream" {
			t.Errorf("part %q", got)
		}
	})
	t.Run("no filename", func(t *testing.T) {
		for _, size := range []int{10, 3 << 20} {
			r, b := gatewaytest.StartService(t)
			content := strings.Repeat("w", size)
			r.PostForm("/v1/audio/transcriptions", gatewaytest.Part{Name: "file", Value: content}, gatewaytest.Field("model", "m")).Succeeds(t)
			if got := partsOf(t, gatewaytest.OnlyRequest(t, b))[0]; got.Value != content || got.Filename == "" {
				t.Errorf("%d bytes as %q", len(got.Value), got.Filename)
			}
		}
	})
	t.Run("the backend's name of the model", func(t *testing.T) {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ServiceYAML("stt", gatewaytest.Instance("m", b.URL(), "upstream-model: whisper-large", "api-key: k-1", "headers: {X-Own: h}")))
		r.PostForm("/v1/audio/transcriptions", gatewaytest.Upload("file", "a.wav", "audio/wav", wav), gatewaytest.Field("model", "m")).Succeeds(t)
		request := gatewaytest.OnlyRequest(t, b)
		if got := partsOf(t, request)[1]; got != gatewaytest.Field("model", "whisper-large") {
			t.Errorf("part %q", got)
		}
		if request.Header.Get("Authorization") != "Bearer k-1" || request.Header.Get("X-Own") != "h" {
			t.Errorf("headers %v", request.Header)
		}
	})
}

func TestTranscriptionFormBoundaries(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartService(t)
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
		answer := r.Do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", test.contentType)
		if answer.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, answer.Status, answer.Body)
		}
	}
	// What stands before and after the form does not count; lines may end in LF.
	body := "preamble\r\n" + strings.ReplaceAll(parts, "%b", "abc") + "epilogue"
	r.Do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=abc").Succeeds(t)
}

func TestInvalidTranscriptions(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	const missing, invalid = "missing_parameter", "invalid_value"
	for name, test := range map[string]struct {
		parts       []gatewaytest.Part
		code, param string
	}{
		"no model":              {[]gatewaytest.Part{gatewaytest.Recording()}, missing, "model"},
		"empty model":           {[]gatewaytest.Part{gatewaytest.Field("model", ""), gatewaytest.Recording()}, missing, "model"},
		"model as a file":       {[]gatewaytest.Part{gatewaytest.Upload("model", "m.txt", "text/plain", "m"), gatewaytest.Recording()}, missing, "model"},
		"no file":               {[]gatewaytest.Part{gatewaytest.Field("model", "m")}, missing, "file"},
		"no part at all":        {nil, missing, "model"},
		"file under other name": {[]gatewaytest.Part{gatewaytest.Field("model", "m"), gatewaytest.Upload("audio", "a.wav", "audio/wav", "x")}, missing, "file"},
		"unknown format":        {[]gatewaytest.Part{gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("response_format", "docx")}, invalid, "response_format"},
		"temperature":           {[]gatewaytest.Part{gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("temperature", "warm")}, invalid, "temperature"},
		"control in the model":  {[]gatewaytest.Part{gatewaytest.Field("model", "m\x01"), gatewaytest.Recording()}, invalid, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			r.PostForm("/v1/audio/transcriptions", test.parts...).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, test.code, test.param)
		})
	}
	t.Run("a file that nobody chose", func(t *testing.T) {
		body := "--x\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" +
			"--x\r\nContent-Disposition: form-data; name=file; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--x--\r\n"
		r.Do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=x").
			FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, missing, "file")
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
			answer := r.Do(http.MethodPost, "/v1/audio/transcriptions", body, "Content-Type", "multipart/form-data; boundary=x")
			answer.FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_body", "")
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// Errors in place of a transcription are reported like those of other services.
func TestAnswersThatAreNotTranscriptionsAreErrors(t *testing.T) {
	t.Parallel()
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
			r, _ := gatewaytest.StartService(t, test.step)
			answer := r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Field("response_format", test.format), gatewaytest.Recording())
			kind := "api_error"
			if test.status < 500 {
				kind = gatewaytest.InvalidRequest
			}
			answer.FailsWith(t, test.status, kind, "upstream_error", "")
		})
	}
	t.Run("text in place of JSON", func(t *testing.T) {
		r, _ := gatewaytest.StartService(t, simulator.Step{Body: "hello", Header: http.Header{"Content-Type": {"text/plain"}}})
		answer := r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording()).Succeeds(t)
		if answer.Body != `{"text":"hello"}` {
			t.Errorf("answer %s", answer.Body)
		}
	})
}
