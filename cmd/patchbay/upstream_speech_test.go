package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

func typed(contentType string) http.Header { return http.Header{"Content-Type": {contentType}} }

// raw is an answer with these header fields and nothing else.
func raw(fields, body string) simulator.Step {
	return simulator.Step{Raw: "HTTP/1.1 200 OK\r\n" + fields + "Connection: close\r\n\r\n" + body}
}

// Text is never delivered as audio, however it is labelled: it is a failure, and
// the sibling answers.
func TestTextIsNoAudio(t *testing.T) {
	fault := simulator.ErrorObject("the voice model ran out of memory", "server_error", "oom")
	for name, step := range map[string]simulator.Step{
		"an error object as bytes":         {Body: fault, Header: typed("application/octet-stream")},
		"an error object as audio":         {Body: fault, Header: typed("audio/mpeg")},
		"an error object as text":          {Body: fault, Header: typed("text/plain; charset=utf-8")},
		"an error object without a type":   raw("", fault),
		"an error object behind a space":   raw("", "\r\n "+fault),
		"an error object in small pieces":  {Body: fault, Header: typed("application/octet-stream"), Slice: 7},
		"an object that is no error":       raw("", `{"status":"queued","id":1}`),
		"a text":                           {Body: "out of memory", Header: typed("text/plain")},
		"a page":                           {Body: simulator.HTMLPage},
		"events that nobody asked for":     {Body: "data: {\"type\":\"speech.audio.delta\"}\n\n"},
		"nothing, without a type":          raw("", ""),
		"nothing, as bytes":                {NoBody: true, Header: typed("application/octet-stream")},
		"nothing, with a length":           raw("Content-Length: 0\r\n", ""),
		"JSON in lines":                    {Body: fault, Header: typed("application/x-ndjson")},
		"an error object that is labelled": {Body: fault},
		"a page as bytes":                  {Body: simulator.HTMLPage, Header: typed("application/octet-stream")},
		"a page as audio":                  {Body: simulator.HTMLPage, Header: typed("audio/mpeg")},
		"a list with an error":             {Body: `[{"error":"x"}]`, Header: typed("audio/mpeg")},
		"a string":                         {Body: `"error"`, Header: typed("application/octet-stream")},
		"an error object behind a mark":    {Body: "\ufeff" + fault, Header: typed("application/octet-stream")},
		"words of many scripts":            {Body: `["später: 内存不足 \U0001f525"]`, Header: typed("audio/mpeg"), Slice: 1},
		"a long page":                      {Body: "<!DOCTYPE html>" + strings.Repeat("<p>\n\tno", 6000), Header: typed("audio/mpeg")},
		"blanks":                           {Body: " \r\n\t\n", Header: typed("audio/mpeg")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startBackend(t), startBackend(t)
			a.ScriptForever(step)
			alone := startGateway(t, serviceYAML("tts", instance("m", a.URL())))
			answer := alone.post("/v1/audio/speech", speakHi)
			answer.failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			if strings.Contains(name, "error object") && !strings.Contains(answer.body, "ran out of memory") {
				t.Errorf("the backend's words are lost: %s", answer.body)
			}
			if success, failed, _ := outcomes(alone.serving(schema.TTS)[0]); success != 0 || failed != 1 {
				t.Errorf("outcomes %d %d", success, failed)
			}
			r := startGateway(t, serviceYAML("tts", instance("m", a.URL()), instance("m", b.URL())))
			answer = r.post("/v1/audio/speech", speakHi).succeeds(t)
			if answer.header.Get("Content-Type") != "audio/mpeg" || answer.header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%s after %s attempts", answer.header.Get("Content-Type"), answer.header.Get("X-Router-Attempts"))
			}
		})
	}
}

// Audio that happens to begin like text is audio.
func TestAudioThatBeginsLikeText(t *testing.T) {
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
			r, _ := startService(t, simulator.Step{Body: audio, Header: typed("audio/pcm")})
			answer := r.post("/v1/audio/speech", `{"model":"m","input":"x","voice":"v","response_format":"pcm"}`).succeeds(t)
			if answer.body != audio || answer.header.Get("Content-Type") != "audio/pcm" {
				t.Errorf("%d bytes of %d as %s", len(answer.body), len(audio), answer.header.Get("Content-Type"))
			}
		})
	}
}
