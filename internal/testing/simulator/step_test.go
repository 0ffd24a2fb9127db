package simulator

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// scripted answers one request with a step.
func scripted(t *testing.T, step Step, body string) reply {
	t.Helper()
	if step.Text == "" {
		step.Text = "one two three"
	}
	r := newRig(t, Options{})
	r.Script(step)
	return r.chat(body)
}

func TestReplacedAnswers(t *testing.T) {
	tests := []struct {
		name        string
		step        Step
		status      int
		contentType string
		body        string // a prefix
	}{
		{"status alone", Step{Status: 503}, 503, "application/json", `{"error":{"message":"`},
		{"error object", Step{Status: 400, Body: ErrorObject("no", "kind", "code")}, 400, "application/json", `{"error":{"message":"no","type":"kind","param":null,"code":"code"}}`},
		{"error text", Step{Status: 500, Body: ErrorText(`a "b"`)}, 500, "application/json", `{"error":"a \"b\""}`},
		{"HTML", Step{Status: 502, Body: HTMLPage}, 502, "text/html; charset=utf-8", HTMLPage},
		{"empty", Step{Status: 500, NoBody: true}, 500, "application/json", ""},
		{"error inside a 200", Step{Body: ErrorObject("no", "kind", "")}, 200, "application/json", `{"error":{`},
		{"HTML with a 200", Step{Body: HTMLPage}, 200, "text/html; charset=utf-8", HTMLPage},
		{"events verbatim", Step{Body: DoneEvent}, 200, eventStreamType, DoneEvent},
		{"own type", Step{Body: "x", Header: http.Header{"content-type": {"text/plain"}}}, 200, "text/plain", "x"},
		{"redirect", Step{Status: 302, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, 302, "application/json", ""},
		{"no content", Step{Status: 204, Body: "x"}, 204, "application/json", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := scripted(t, test.step, hiStream)
			if got.err != nil || got.status != test.status || got.header.Get("Content-Type") != test.contentType || !strings.HasPrefix(got.body, test.body) {
				t.Errorf("got %+v", got)
			}
			if test.body == "" && got.body != "" {
				t.Errorf("body %q", got.body)
			}
		})
	}
}

func TestHeadersAreSetOnAnyAnswer(t *testing.T) {
	for _, value := range []string{"2", "Wed, 21 Oct 2026 07:28:00 GMT", "99999", "soon"} {
		got := scripted(t, Step{Status: 429, Header: http.Header{"Retry-After": {value}}}, hi)
		if got.status != 429 || got.header.Get("Retry-After") != value {
			t.Errorf("got %+v", got)
		}
	}
	got := scripted(t, Step{Header: http.Header{"X-Vendor": {"a", "b"}}}, hi)
	if got.status != 200 || !slices.Equal(got.header.Values("X-Vendor"), []string{"a", "b"}) {
		t.Errorf("got %+v", got)
	}
}

func TestStreamsThatStopEarly(t *testing.T) {
	tests := []struct {
		name   string
		step   Step
		events int // whole events the client sees
		err    error
		has    string
		lacks  string
	}{
		{"reset before the first event", Step{Stop: StopReset}, 0, syscall.ECONNRESET, "", "data"},
		{"reset after 2", Step{Stop: StopReset, After: 2}, 2, syscall.ECONNRESET, `"one"`, `" two"`},
		{"closed after 2", Step{Stop: StopClose, After: 2}, 2, io.ErrUnexpectedEOF, `"one"`, `" two"`},
		{"ended after 2", Step{Stop: StopEnd, After: 2}, 2, nil, `"one"`, `"finish_reason":"`},
		{"closed inside an event", Step{Stop: StopClose, After: 1, MidEvent: true}, 1, io.ErrUnexpectedEOF, `data: {"id":`, `"one"`},
		{"fewer events than asked", Step{Stop: StopReset, After: 99}, 5, syscall.ECONNRESET, `"finish_reason":"stop"`, "[DONE]"},
		{"no [DONE]", Step{NoDone: true}, 5, nil, `"finish_reason":"stop"`, "[DONE]"},
		{"no finish_reason", Step{NoFinish: true}, 5, nil, "[DONE]", `"finish_reason":"`},
		{"error event", Step{Inject: ErrorEvent("boom", "api_error", "x"), After: 2, Stop: StopEnd}, 3, nil, `data: {"error":{"message":"boom"`, "[DONE]"},
		{"broken event at 2", Step{Inject: BrokenEvent, After: 2}, 7, nil, BrokenEvent, ""},
		{"BOM first", Step{Inject: "\ufeff"}, 6, nil, "\ufeffdata: {", ""},
		{"two [DONE]", Step{Tail: DoneEvent}, 7, nil, DoneEvent + DoneEvent, ""},
		{"data after [DONE]", Step{Tail: BrokenEvent}, 7, nil, DoneEvent + BrokenEvent, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := scripted(t, test.step, hiStream)
			if got.status != 200 || !errors.Is(got.err, test.err) {
				t.Errorf("status %d, error %v", got.status, got.err)
			}
			whole := strings.Count(got.body, "\n\n")
			if whole != test.events || !strings.Contains(got.body, test.has) || test.lacks != "" && strings.Contains(got.body, test.lacks) {
				t.Errorf("%d events in %q", whole, got.body)
			}
		})
	}
}

func TestPlainAnswersThatStopEarly(t *testing.T) {
	tests := []struct {
		name string
		step Step
		err  error
	}{
		{"reset", Step{Stop: StopReset}, syscall.ECONNRESET},
		{"closed short of the length", Step{Stop: StopClose}, io.ErrUnexpectedEOF},
		{"own length too long", Step{Body: "short", Header: http.Header{"Content-Length": {"100"}}}, io.ErrUnexpectedEOF},
		{"truncated but well framed", Step{Stop: StopEnd}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := scripted(t, test.step, hi)
			if got.status != 200 || !errors.Is(got.err, test.err) || got.body == "" || strings.HasSuffix(got.body, "}") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestConnectionsThatEndWithoutAnAnswer(t *testing.T) {
	if got := scripted(t, Step{Reset: true}, hi); !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("reset: %+v", got)
	}
	if got := scripted(t, Step{Raw: "HTTP/1.1 2"}, hi); got.err == nil {
		t.Errorf("garbage: %+v", got)
	}
	if got := scripted(t, Step{Raw: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Stop: StopReset}, hi); got.body != "half" || !errors.Is(got.err, syscall.ECONNRESET) {
		t.Errorf("raw and reset: %+v", got)
	}
	if got := scripted(t, Step{Raw: "HTTP/1.1 418 Teapot\r\nX-A: b\r\n\r\nfree"}, hi); got.status != 418 || got.body != "free" || got.header.Get("X-A") != "b" || got.err != nil {
		t.Errorf("raw: %+v", got)
	}
}

func TestFramingsCarryTheSameEvents(t *testing.T) {
	want := payloads(t, scripted(t, Step{}, hiStream).body)
	tests := []struct {
		name string
		step Step
		has  string
	}{
		{"CRLF", Step{Framing: Framing{LineEnd: "\r\n"}}, "[DONE]\r\n\r\n"},
		{"CR", Step{Framing: Framing{LineEnd: "\r"}}, "[DONE]\r\r"},
		{"no space", Step{Framing: Framing{NoSpace: true}}, "data:{"},
		{"comments", Step{Framing: Framing{Before: ": ping\n\n"}}, ": ping\n\ndata: [DONE]"},
		{"event names", Step{Framing: Framing{Before: "event: message\n"}}, "event: message\ndata: {"},
		{"multi-line", Step{Framing: Framing{MultiLine: true}}, ",\ndata: \"object\""},
		{"one byte at a time", Step{Slice: 1}, "[DONE]\n\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := scripted(t, test.step, hiStream)
			if !strings.Contains(got.body, test.has) {
				t.Errorf("no %q in %q", test.has, got.body)
			}
			events := payloads(t, got.body)
			for i := range events {
				events[i] = strings.ReplaceAll(events[i], "\n", "")
			}
			if len(events) != len(want) {
				t.Fatalf("%d events, want %d", len(events), len(want))
			}
			for i, event := range events {
				if event != "[DONE]" && choicesOf(event) != choicesOf(want[i]) {
					t.Errorf("event %d: %s, want %s", i, event, want[i])
				}
			}
		})
	}
}

func choicesOf(event string) string { return event[strings.Index(event, `"choices"`):] }

func TestUsageAppearsWhereTheStepSays(t *testing.T) {
	// One letter per chunk: role, three tokens, finish and perhaps a last one.
	// v a value, n null, - absent.
	tests := []struct {
		name  string
		usage Usage
		body  string
		want  string
	}{
		{"not asked", 0, hiStream, "-----"},
		{"asked", 0, hiUsage, "nnnnnv"},
		{"not asked and sent", UsageFinal, hiStream, "nnnnnv"},
		{"on the finish", UsageOnFinish, hiUsage, "----v"},
		{"on the finish and at the end", UsageOnFinish | UsageFinal, hiUsage, "nnnnvv"},
		{"on every chunk", UsageEvery, hiUsage, "vvvvv"},
		{"null on every chunk", UsageNull, hiStream, "nnnnn"},
		{"asked and not given", UsageNone, hiUsage, "-----"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			for _, event := range payloads(t, scripted(t, Step{Usage: test.usage}, test.body).body) {
				switch {
				case event == "[DONE]":
				case strings.Contains(event, `"usage":{`):
					got += "v"
				case strings.Contains(event, `"usage":null`):
					got += "n"
				default:
					got += "-"
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if got := scripted(t, Step{Usage: UsageNone}, hi); strings.Contains(got.body, "usage") {
		t.Errorf("plain: %s", got.body)
	}
	if got := scripted(t, Step{UsageValue: `{"total_tokens":-1}`}, hi); !strings.Contains(got.body, `"usage":{"total_tokens":-1}}`) {
		t.Errorf("plain: %s", got.body)
	}
}

func TestUsageOnEveryChunkCountsWhatWasSent(t *testing.T) {
	var got []int
	for _, event := range payloads(t, scripted(t, Step{Usage: UsageEvery}, hiStream).body) {
		if event != "[DONE]" {
			got = append(got, decode(t, event).Usage.Completion)
		}
	}
	if want := []int{0, 1, 2, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOddChunks(t *testing.T) {
	tests := []struct {
		name  string
		step  Step
		every string // in every chunk
	}{
		{"error null", Step{ErrorNull: true}, `"error":null`},
		{"unknown fields", Step{Extra: `"vendor":{"a":1}`}, `"vendor":{"a":1}`},
		{"role in every delta", Step{RoleAlways: true}, `"delta":{"role":"assistant"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, event := range payloads(t, scripted(t, test.step, hiStream).body) {
				if event == "[DONE]" {
					continue
				}
				decode(t, event)
				if !strings.Contains(event, test.every) {
					t.Errorf("no %s in %s", test.every, event)
				}
			}
		})
	}
	if got := scripted(t, Step{Text: "caf\xff"}, hi); !strings.Contains(got.body, "caf\xff") {
		t.Errorf("invalid UTF-8: %q", got.body)
	}
	if got := scripted(t, Step{Plain: true}, hiStream); got.header.Get("Content-Type") != "application/json" || decode(t, got.body).Object != "chat.completion" {
		t.Errorf("plain for stream: %+v", got)
	}
}
