package v1_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// zipped compresses a text.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// An error that comes compressed, though nobody asked for that, keeps its status,
// its Retry-After and its words.
func TestCompressedErrorsKeepTheirStatus(t *testing.T) {
	t.Parallel()
	text := simulator.ErrorObject("the backend's own words", "t", "c")
	for name, row := range map[string]struct{ encoding, body, says string }{
		"gzip":                 {"gzip", zipped(t, text), "the backend's own words"},
		"gzip in name only":    {"GZIP", text, "the backend's own words"},
		"half of it":           {"gzip", zipped(t, text)[:40], ""},
		"a large one":          {"gzip", zipped(t, text+strings.Repeat(" ", 10<<20)), "the backend's own words"},
		"unknown":              {"br", "\x1b\x03\x00", "compressed"},
		"said to be plain":     {"identity", text, "the backend's own words"},
		"said in other letter": {"Identity", text, "the backend's own words"},
	} {
		t.Run(name, func(t *testing.T) {
			for status, want := range map[int]int{429: 429, 400: 400, 503: 503, 401: 502} {
				r, _ := gatewaytest.StartOne(t, simulator.Step{Status: status, Body: row.body, Header: http.Header{"Content-Encoding": {row.encoding}, "Retry-After": {"7"}}})
				answer := r.Chat(gatewaytest.PlainHi)
				if answer.Status != want || !strings.Contains(string(gatewaytest.ErrorOf(t, answer.Body).Details), row.says) {
					t.Errorf("%d became %d: %s", status, answer.Status, answer.Body)
				}
				if got := answer.Header.Get("Retry-After"); status == 429 && got != "7" {
					t.Errorf("Retry-After %q", got)
				}
			}
		})
	}
}

// Any 2xx with an answer that can be read is a success; what no status means is
// garbage.
func TestStatusesThatAreNotJust200(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 203, 206, 226, 299} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			gatewaytest.Both(t, func(t *testing.T, body string) {
				r, _ := gatewaytest.StartOne(t, simulator.Step{Status: status, Body: gatewaytest.RawBody})
				answer := r.Chat(body).Succeeds(t)
				if success, failed, _ := gatewaytest.Outcomes(r.Instances("m")[0]); success != 1 || failed != 0 || answer.Body == "" {
					t.Errorf("outcomes %d %d: %s", success, failed, answer.Body)
				}
			})
		})
	}
	t.Run("a stream", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t, simulator.Step{Status: 203, Body: "data: " + gatewaytest.LastChunk + "\n\n" + simulator.DoneEvent})
		if events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body); events[len(events)-1] != "[DONE]" {
			t.Errorf("events %v", events)
		}
	})
	for _, status := range []string{"600", "699", "999", "000", "099", "204", "205", "300", "399"} {
		t.Run(status, func(t *testing.T) {
			body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(gatewaytest.RawBody), gatewaytest.RawBody)
			if status == "204" || status == "205" {
				body = "Content-Length: 0\r\n\r\n"
			}
			r, _ := gatewaytest.StartOne(t, simulator.Step{Raw: "HTTP/1.1 " + status + " Odd\r\nContent-Type: application/json\r\n" + body})
			answer := r.Chat(gatewaytest.PlainHi)
			answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			number, _ := strconv.Atoi(status)
			if told := fmt.Sprintf(`"upstream_status":%d`, number); number >= 100 && !strings.Contains(answer.Body, told) {
				t.Errorf("the status is not told: %s", answer.Body)
			}
		})
	}
}

// A compressed answer is refused with the name of its encoding, and with no text of the
// backend's choice.
func TestCompressedAnswersAreRefusedByName(t *testing.T) {
	t.Parallel()
	for sent, told := range map[string]string{"br": "br", "GZIP": "gzip", "http://10.1.2.3/": "unknown"} {
		t.Run(told, func(t *testing.T) {
			t.Parallel()
			r, _ := gatewaytest.StartOne(t, simulator.Step{Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: " + sent + "\r\nContent-Length: 2\r\n\r\n\x1f\x8b"})
			answer := r.Chat(gatewaytest.PlainHi)
			answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			if !strings.Contains(answer.Body, `"upstream_encoding":"`+told+`"`) || strings.Contains(answer.Body, "10.1.2.3") {
				t.Errorf("reply %s", answer.Body)
			}
		})
	}
}

// An answer that is too large says so, and nobody else is asked for another one;
// the instance did nothing wrong. One of a size that happens is passed on.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	t.Run("too large", func(t *testing.T) {
		a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
		// It announces more than it will ever be asked for.
		a.ScriptForever(simulator.Step{Raw: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 268435457\r\n\r\n{", Stop: simulator.StopStall})
		r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1", a, b))
		answer := r.Chat(gatewaytest.PlainHi)
		fault := answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		if !strings.Contains(fault.Message, "larger than the 256 MiB") || answer.Header.Get("X-Router-Attempts") != "1" {
			t.Errorf("%q after %s attempts", fault.Message, answer.Header.Get("X-Router-Attempts"))
		}
		if _, failed, cancelled := gatewaytest.Outcomes(r.Instances("m")[0]); failed != 0 || cancelled != 1 {
			t.Errorf("outcomes %d %d", failed, cancelled)
		}
	})
	t.Run("large", func(t *testing.T) {
		const size = 70 << 20
		r, _ := gatewaytest.StartOne(t, simulator.Step{Body: strings.Replace(gatewaytest.RawBody, `"choices"`, `"padding":"`+strings.Repeat("x", size)+`","choices"`, 1)})
		if answer := r.Chat(gatewaytest.PlainHi).Succeeds(t); len(answer.Body) < size {
			t.Errorf("%d bytes", len(answer.Body))
		}
	})
}

// No header is sent twice: what the instance's configuration says wins over what
// the gateway would say, and the caller's credential takes the place of the
// instance's, whatever header that is in.
func TestHeadersToABackendAreThereOnce(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	const callers = "Bearer callers-own"
	for name, row := range map[string]struct {
		settings []string
		want     map[string]string // "" means absent
	}{
		"nothing configured": {nil, map[string]string{"X-Request-Id": "given", "Traceparent": parent, "Tracestate": "a=b", "Authorization": ""}},
		"own names": {
			[]string{"headers: {x-request-id: fixed, TRACEPARENT: none, Tracestate: c=d}"},
			map[string]string{"X-Request-Id": "fixed", "Traceparent": "none", "Tracestate": "c=d"},
		},
		"forwarded": {
			[]string{"api-key: k1234", "forward-authorization: true"}, map[string]string{"Authorization": callers},
		},
		"forwarded beside another header": {
			[]string{"api-key: k1234", "headers: {X-Api-Key: own}", "forward-authorization: true"}, map[string]string{"Authorization": callers, "X-Api-Key": "own"},
		},
		"forwarded, and an own one": {
			[]string{"headers: {authorization: Basic abc}", "forward-authorization: true"}, map[string]string{"Authorization": "Basic abc"},
		},
		"forwarded in a dialect with its own header": {
			[]string{"adapter: anthropic", "api-key: k1234", "forward-authorization: true"}, map[string]string{"Authorization": "", "X-Api-Key": "callers-own"},
		},
		"forwarded, and its own header is configured": {
			[]string{"adapter: anthropic", "headers: {x-api-key: own}", "forward-authorization: true"}, map[string]string{"Authorization": "", "X-Api-Key": "own"},
		},
		"not forwarded in such a dialect": {
			[]string{"adapter: anthropic", "api-key: k1234"}, map[string]string{"Authorization": "", "X-Api-Key": "k1234"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), row.settings...)))
			body := strings.Replace(gatewaytest.PlainHi, `"model"`, `"max_tokens":5,"model"`, 1)
			r.Chat(body, "Authorization", callers, "X-Request-Id", "given", "Traceparent", parent, "Tracestate", "a=b").Succeeds(t)
			got := gatewaytest.OnlyRequest(t, b).Header
			for name, value := range row.want {
				if strings.Join(got.Values(name), "|") != value {
					t.Errorf("%s: %q, want %q", name, got.Values(name), value)
				}
			}
		})
	}
}

// The caller's credential reaches the backend in the form that its kind wants, in
// whichever form the caller sent it. Tokens stay bearer tokens.
func TestForwardedCredentialsHaveTheFormOfTheBackend(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ adapter, sent, value, want, as string }{
		{"openai", "X-Api-Key", "k1", "Authorization", "Bearer k1"},
		{"openai", "Api-Key", "k1", "Authorization", "Bearer k1"},
		{"openai", "Authorization", "Basic abc", "Authorization", "Basic abc"},
		{"anthropic", "X-Api-Key", "k1", "X-Api-Key", "k1"},
		{"anthropic", "Authorization", "Bearer sk-ant-api03-x", "X-Api-Key", "sk-ant-api03-x"},
		{"anthropic", "Authorization", "Bearer sk-ant-oat01-x", "Authorization", "Bearer sk-ant-oat01-x"},
		{"anthropic", "Authorization", "Basic abc", "Authorization", "Basic abc"},
		{"gemini", "X-Api-Key", "k1", "X-Goog-Api-Key", "k1"},
		{"gemini", "Authorization", "bearer AIzaX", "X-Goog-Api-Key", "AIzaX"},
		{"gemini", "Authorization", "Bearer ya29.x", "Authorization", "Bearer ya29.x"},
		{"azure", "Authorization", "Bearer eyJ0eXAi.x.y", "Authorization", "Bearer eyJ0eXAi.x.y"},
		{"azure", "X-Api-Key", "k1", "Api-Key", "k1"},
	} {
		t.Run(row.adapter+" "+row.sent+" "+row.value, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+row.adapter, "api-key: k1234", "forward-authorization: true")))
			r.Do("POST", "/v1/messages", messageHi, row.sent, row.value).Succeeds(t)
			got := gatewaytest.OnlyRequest(t, b).Header
			for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
				want := ""
				if name == row.want {
					want = row.as
				}
				if strings.Join(got.Values(name), "|") != want {
					t.Errorf("%s: %q, want %q", name, got.Values(name), want)
				}
			}
		})
	}
}

// A whole completion is one whatever blanks come before it and however they come.
func TestWholeCompletionsBehindBlanks(t *testing.T) {
	t.Parallel()
	const whole = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`
	for name, body := range map[string]string{
		"nothing":          whole,
		"a mark":           "\ufeff" + whole,
		"lines":            "\n\r\n \t\n" + whole,
		"a mark and lines": "\ufeff\n\n" + whole,
		"many lines":       strings.Repeat("\n", 40<<10) + whole,
	} {
		for _, slice := range []int{0, 1 + len(body)/200} {
			for _, kind := range []string{"application/octet-stream", "text/plain"} {
				r, _ := gatewaytest.StartOne(t, simulator.Step{Body: body, Header: gatewaytest.ContentType(kind), Slice: slice})
				events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
				if gatewaytest.TextOf(t, events) != "fine" || events[len(events)-1] != "[DONE]" {
					t.Errorf("%s as %s: %q", name, kind, events)
				}
			}
		}
	}
	r, _ := gatewaytest.StartOne(t, simulator.Step{Body: strings.Repeat("\n", 200), Header: gatewaytest.ContentType("text/plain"), Slice: 50})
	r.Chat(gatewaytest.StreamHi).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_stream_truncated", "")
	r, _ = gatewaytest.StartOne(t, simulator.Step{Body: "\n\n\ufeff\n" + streamBegins + "\n\n" + streamEnds + "\n\n", Header: gatewaytest.ContentType("text/plain"), Slice: 1})
	r.Chat(gatewaytest.StreamHi).Succeeds(t)
}
