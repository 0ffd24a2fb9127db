package v1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// raw is an answer with these header fields and nothing else.
func raw(fields, body string) simulator.Step {
	return simulator.Step{Raw: "HTTP/1.1 200 OK\r\n" + fields + "Connection: close\r\n\r\n" + body}
}

// Text is never delivered as audio, however it is labelled: it is a failure, and
// the sibling answers.
func TestTextInPlaceOfAudioIsAnError(t *testing.T) {
	fault := simulator.ErrorObject("the voice model ran out of memory", "server_error", "oom")
	for name, step := range map[string]simulator.Step{
		"an error object as bytes":         {Body: fault, Header: gatewaytest.ContentType("application/octet-stream")},
		"an error object as audio":         {Body: fault, Header: gatewaytest.ContentType("audio/mpeg")},
		"an error object as text":          {Body: fault, Header: gatewaytest.ContentType("text/plain; charset=utf-8")},
		"an error object without a type":   raw("", fault),
		"an error object behind a space":   raw("", "\r\n "+fault),
		"an error object in small pieces":  {Body: fault, Header: gatewaytest.ContentType("application/octet-stream"), Slice: 7},
		"an object that is no error":       raw("", `{"status":"queued","id":1}`),
		"a text":                           {Body: "out of memory", Header: gatewaytest.ContentType("text/plain")},
		"a page":                           {Body: simulator.HTMLPage},
		"events that nobody asked for":     {Body: "data: {\"type\":\"speech.audio.delta\"}\n\n"},
		"nothing, without a type":          raw("", ""),
		"nothing, as bytes":                {NoBody: true, Header: gatewaytest.ContentType("application/octet-stream")},
		"nothing, with a length":           raw("Content-Length: 0\r\n", ""),
		"JSON in lines":                    {Body: fault, Header: gatewaytest.ContentType("application/x-ndjson")},
		"an error object that is labelled": {Body: fault},
		"a page as bytes":                  {Body: simulator.HTMLPage, Header: gatewaytest.ContentType("application/octet-stream")},
		"a page as audio":                  {Body: simulator.HTMLPage, Header: gatewaytest.ContentType("audio/mpeg")},
		"a list with an error":             {Body: `[{"error":"x"}]`, Header: gatewaytest.ContentType("audio/mpeg")},
		"a string":                         {Body: `"error"`, Header: gatewaytest.ContentType("application/octet-stream")},
		"an error object behind a mark":    {Body: "\ufeff" + fault, Header: gatewaytest.ContentType("application/octet-stream")},
		"words of many scripts":            {Body: `["später: 内存不足 \U0001f525"]`, Header: gatewaytest.ContentType("audio/mpeg"), Slice: 1},
		"a long page":                      {Body: "<!DOCTYPE html>" + strings.Repeat("<p>\n\tno", 6000), Header: gatewaytest.ContentType("audio/mpeg")},
		"blanks":                           {Body: " \r\n\t\n", Header: gatewaytest.ContentType("audio/mpeg")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(step)
			alone := gatewaytest.Start(t, gatewaytest.ServiceYAML("tts", gatewaytest.Instance("m", a.URL())))
			answer := alone.Post("/v1/audio/speech", speakHi)
			answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			if strings.Contains(name, "error object") && !strings.Contains(answer.Body, "ran out of memory") {
				t.Errorf("the backend's words are lost: %s", answer.Body)
			}
			if success, failed, _ := gatewaytest.Outcomes(serving(alone, schema.TTS)[0]); success != 0 || failed != 1 {
				t.Errorf("outcomes %d %d", success, failed)
			}
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("tts", gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			answer = r.Post("/v1/audio/speech", speakHi).Succeeds(t)
			if answer.Header.Get("Content-Type") != "audio/mpeg" || answer.Header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%s after %s attempts", answer.Header.Get("Content-Type"), answer.Header.Get("X-Router-Attempts"))
			}
		})
	}
}

// Audio that happens to begin like text is audio.
func TestAudioThatBeginsLikeText(t *testing.T) {
	t.Parallel()
	for name, audio := range map[string]string{
		"short":         "{\x00\x01\x02",
		"letters":       "audio of a backend that only pretends",
		"long":          "{\x00" + strings.Repeat("\xff\x00", 100_000),
		"no object":     "this is no JSON\x00",
		"a delete":      "text \x7f",
		"half a letter": "sch\xc3",
		"no letter":     "sch\xc3\x28n",
		"late":          strings.Repeat("x", 40<<10) + "\x01",
		"printable 80K": "{" + strings.Repeat("x", 80<<10),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartService(t, simulator.Step{Body: audio, Header: gatewaytest.ContentType("audio/pcm")})
			answer := r.Post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","response_format":"pcm"}`).Succeeds(t)
			if answer.Body != audio || answer.Header.Get("Content-Type") != "audio/pcm" {
				t.Errorf("%d bytes of %d as %s", len(answer.Body), len(audio), answer.Header.Get("Content-Type"))
			}
		})
	}
}
