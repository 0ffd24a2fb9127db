package v1_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Requests for the model m that ask for a stream.
const streamUsage = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

func TestStreamIsWhatTheBackendSaid(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t, simulator.Step{Text: "one two three"})
	answer := r.Chat(gatewaytest.StreamHi).Succeeds(t)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache",
		"X-Accel-Buffering": "no", "Content-Length": "", "Access-Control-Allow-Origin": "*",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	events := gatewaytest.EventsOf(t, answer.Body)
	if text := gatewaytest.TextOf(t, events); text != "one two three" {
		t.Errorf("text %q", text)
	}
	if len(events) != 6 || events[5] != "[DONE]" {
		t.Fatalf("events %q", events)
	}
	first, last := gatewaytest.DecodeChunk(t, events[0]), gatewaytest.DecodeChunk(t, events[4])
	if first.Choices[0].Delta.Role != "assistant" || first.Object != "chat.completion.chunk" || first.Model != "m" {
		t.Errorf("the first chunk is %s", events[0])
	}
	if reason := last.Choices[0].FinishReason; reason == nil || *reason != "stop" {
		t.Errorf("the last chunk is %s", events[4])
	}
	if !strings.HasSuffix(answer.Body, "data: [DONE]\n\n") {
		t.Error("[DONE] is not the last thing")
	}
}

// What fails before the first event is an ordinary error with its own status.
func TestFailureBeforeTheFirstEventIsAStatus(t *testing.T) {
	for name, test := range map[string]struct {
		step   simulator.Step
		status int
		kind   string
		code   string
	}{
		"error event first":       {simulator.Step{Inject: simulator.ErrorEvent("no", "server_error", "x")}, 502, "api_error", "upstream_error"},
		"broken event first":      {simulator.Step{Inject: simulator.BrokenEvent}, 502, "api_error", "upstream_error"},
		"no event, clean end":     {simulator.Step{Stop: simulator.StopEnd}, 502, "api_error", "upstream_stream_truncated"},
		"no event, closed":        {simulator.Step{Stop: simulator.StopClose}, 502, "api_error", ""},
		"no event, reset":         {simulator.Step{Stop: simulator.StopReset}, 502, "api_error", ""},
		"half an event":           {simulator.Step{Stop: simulator.StopEnd, MidEvent: true}, 502, "api_error", ""},
		"only [DONE]":             {simulator.Step{Body: simulator.DoneEvent}, 502, "api_error", "upstream_stream_truncated"},
		"only comments":           {simulator.Step{Body: "data:\n\n", Header: http.Header{"Content-Type": {"text/event-stream"}}}, 502, "api_error", ""},
		"an array":                {simulator.Step{Body: "data: []\n\n"}, 502, "api_error", "upstream_error"},
		"empty body":              {simulator.Step{NoBody: true, Header: http.Header{"Content-Type": {"text/event-stream"}}}, 502, "api_error", "upstream_stream_truncated"},
		"status 503":              {simulator.Step{Status: 503}, 503, "api_error", "upstream_error"},
		"no event in time":        {simulator.Step{FirstDelay: gatewaytest.Never}, 504, "api_error", "upstream_timeout"},
		"no head in time":         {simulator.Step{Hang: true}, 504, "api_error", "upstream_timeout"},
		"comments but no event":   {simulator.Step{Body: ": ping\n\n: ping\n\n", Header: http.Header{"Content-Type": {"text/event-stream"}}}, 502, "api_error", "upstream_stream_truncated"},
		"invalid UTF-8 first":     {simulator.Step{Body: "data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n"}, 502, "api_error", "upstream_error"},
		"JSON without a choice":   {simulator.Step{Body: `{"id":"x","choices":[]}`}, 502, "api_error", "upstream_error"},
		"JSON that is an error":   {simulator.Step{Body: simulator.ErrorObject("no", "x", "y")}, 502, "api_error", "upstream_error"},
		"a page":                  {simulator.Step{Body: simulator.HTMLPage}, 502, "api_error", "upstream_error"},
		"compressed":              {simulator.Step{Header: http.Header{"Content-Encoding": {"gzip"}}}, 502, "api_error", "upstream_error"},
		"JSON with half a choice": {simulator.Step{Plain: true, Stop: simulator.StopClose}, 502, "api_error", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t, test.step)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.ShortTimeouts(test.step))
			answer := r.Chat(gatewaytest.StreamHi)
			code := test.code
			if code == "" { // the bytes do not tell which of the two it was
				code = gatewaytest.ErrorOf(t, answer.Body).Code
				if code != "upstream_error" && code != "upstream_stream_truncated" {
					t.Errorf("code %q", code)
				}
			}
			answer.FailsWith(t, test.status, test.kind, code, "")
			if strings.Contains(answer.Body, "data:") {
				t.Errorf("events in an error: %s", answer.Body)
			}
		})
	}
}

// What fails after the first event is an event, and [DONE] never follows it.
func TestFailureAfterTheFirstEventIsAnErrorEvent(t *testing.T) {
	t.Parallel()
	const long = "one two three four five"
	for name, test := range map[string]struct {
		step simulator.Step
		code string
	}{
		"reset":                  {simulator.Step{Stop: simulator.StopReset, After: 3}, "upstream_stream_truncated"},
		"closed in the body":     {simulator.Step{Stop: simulator.StopClose, After: 3}, "upstream_stream_truncated"},
		"clean end":              {simulator.Step{Stop: simulator.StopEnd, After: 3}, "upstream_stream_truncated"},
		"reset in an event":      {simulator.Step{Stop: simulator.StopReset, After: 3, MidEvent: true}, "upstream_stream_truncated"},
		"clean end in an event":  {simulator.Step{Stop: simulator.StopEnd, After: 3, MidEvent: true}, ""},
		"closed in an event":     {simulator.Step{Stop: simulator.StopClose, After: 3, MidEvent: true}, "upstream_stream_truncated"},
		"no finish, no [DONE]":   {simulator.Step{NoFinish: true, NoDone: true}, "upstream_stream_truncated"},
		"broken event":           {simulator.Step{Inject: simulator.BrokenEvent, After: 3}, "upstream_error"},
		"error event":            {simulator.Step{Inject: simulator.ErrorEvent("out of memory", "server_error", "oom"), After: 3}, "upstream_error"},
		"error event of a text":  {simulator.Step{Inject: "data: " + simulator.ErrorText("out of memory") + "\n\n", After: 3}, "upstream_error"},
		"error object of vLLM":   {simulator.Step{Inject: `data: {"object":"error","message":"out of memory","code":500}` + "\n\n", After: 3}, "upstream_error"},
		"event that is no chunk": {simulator.Step{Inject: "data: 1\n\n", After: 3}, "upstream_error"},
		"invalid UTF-8":          {simulator.Step{Inject: "data: {\"a\":\"\xff\"}\n\n", After: 3}, "upstream_error"},
		"silence":                {simulator.Step{Stop: simulator.StopStall, After: 3}, "upstream_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.step.Text == "" {
				test.step.Text = long
			}
			b := gatewaytest.StartBackend(t, test.step)
			r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.ShortTimeouts(test.step))
			answer := r.Chat(gatewaytest.StreamHi).Succeeds(t)
			events := gatewaytest.EventsOf(t, answer.Body)
			last := events[len(events)-1]
			if !strings.HasPrefix(last, `{"error":{`) || !strings.Contains(answer.Body, "\n\ndata: {\"error\":{") {
				t.Fatalf("the last event is %q", last)
			}
			fault := gatewaytest.ErrorOf(t, last)
			if test.code != "" && fault.Code != test.code || fault.Type != "api_error" {
				t.Errorf("the error is %s", last)
			}
			if strings.Contains(answer.Body, "[DONE]") {
				t.Error("[DONE] after an error")
			}
			if text := gatewaytest.TextOf(t, events); !strings.HasPrefix(long, text) || text == "" {
				t.Errorf("text %q is no beginning of what the backend said", text)
			}
			success, failure, cancelled := gatewaytest.Outcomes(r.Instances("m")[0])
			if success != 0 || failure != 1 || cancelled != 0 {
				t.Errorf("outcomes %d %d %d, want one failure", success, failure, cancelled)
			}
			if name == "error event" && !strings.Contains(last, "out of memory") {
				t.Errorf("the backend's text is lost: %s", last)
			}
		})
	}
}

func TestCompleteStreamsEndWithOneDone(t *testing.T) {
	for name, step := range map[string]simulator.Step{
		"normal":                     {},
		"finish without [DONE]":      {NoDone: true},
		"[DONE] without finish":      {NoFinish: true},
		"two [DONE]":                 {Tail: simulator.DoneEvent},
		"data after [DONE]":          {Tail: "data: " + gatewaytest.LastChunk + "\n\n" + simulator.DoneEvent},
		"error after [DONE]":         {Tail: simulator.ErrorEvent("late", "x", "y")},
		"garbage after [DONE]":       {Tail: simulator.BrokenEvent},
		"reset after finish":         {Stop: simulator.StopReset, After: 99},
		"closed after finish":        {Stop: simulator.StopClose, After: 99},
		"last event has no end":      {NoDone: true, Tail: "data: [DONE]"},
		"role in every chunk":        {RoleAlways: true},
		"error null in every chunk":  {ErrorNull: true},
		"unknown members everywhere": {Extra: `"x":1.10`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step.Text = "one two three"
			r, _ := gatewaytest.StartOne(t, step)
			answer := r.Chat(gatewaytest.StreamHi).Succeeds(t)
			events := gatewaytest.EventsOf(t, answer.Body)
			if strings.Count(answer.Body, "[DONE]") != 1 || events[len(events)-1] != "[DONE]" {
				t.Errorf("events %q", events)
			}
			if text := gatewaytest.TextOf(t, events); text != "one two three" {
				t.Errorf("text %q", text)
			}
			if strings.Contains(answer.Body, `"error"`) {
				t.Errorf("an error in %s", answer.Body)
			}
			if step.Extra != "" && strings.Count(answer.Body, step.Extra) != len(events)-1 {
				t.Errorf("unknown members are lost: %s", answer.Body)
			}
			gatewaytest.Eventually(t, "the call is a success", func() bool {
				success, failure, cancelled := gatewaytest.Outcomes(r.Instances("m")[0])
				return success == 1 && failure == 0 && cancelled == 0
			})
		})
	}
}

// The usage reaches the caller exactly when it asked, and then once and last.
func TestUsageIsSentToCallersThatAskedForIt(t *testing.T) {
	for name, places := range map[string]simulator.Usage{
		"as asked": 0, "on the finish": simulator.UsageOnFinish, "on every chunk": simulator.UsageEvery,
		"on every chunk and last": simulator.UsageEvery | simulator.UsageFinal, "null and last": simulator.UsageNull | simulator.UsageFinal,
		"always last": simulator.UsageFinal, "nowhere": simulator.UsageNone, "null only": simulator.UsageNull,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := gatewaytest.StartOne(t, simulator.Step{Text: "one two", Usage: places}, simulator.Step{Text: "one two", Usage: places})
			reported := places&(simulator.UsageOnFinish|simulator.UsageEvery|simulator.UsageFinal) != 0 || places == 0
			asked := gatewaytest.EventsOf(t, r.Chat(streamUsage).Succeeds(t).Body)
			usageChunks := 0
			for i, event := range asked[:len(asked)-1] {
				if c := gatewaytest.DecodeChunk(t, event); len(c.Choices) == 0 {
					usageChunks++
					if i != len(asked)-2 || !strings.Contains(string(c.Usage), `"completion_tokens":2`) {
						t.Errorf("the usage is not last or not right: %q", asked)
					}
				}
			}
			if want := map[bool]int{true: 1, false: 0}[reported]; usageChunks != want {
				t.Errorf("%d usage chunks, want %d: %q", usageChunks, want, asked)
			}
			quiet := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
			for _, event := range quiet[:len(quiet)-1] {
				if len(gatewaytest.DecodeChunk(t, event).Choices) == 0 {
					t.Errorf("a usage chunk that nobody asked for: %s", event)
				}
			}
			if gatewaytest.TextOf(t, quiet) != "one two" || gatewaytest.TextOf(t, asked) != "one two" {
				t.Errorf("text %q and %q", gatewaytest.TextOf(t, quiet), gatewaytest.TextOf(t, asked))
			}
			if logged := strings.Count(r.Logs.String(), `"completion_tokens":2`); reported && logged != 2 {
				t.Errorf("the usage was counted %d times in the log, want 2", logged)
			}
		})
	}
}

func TestInvalidUsageDoesNotBreakTheStream(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"prompt_tokens":-1,"completion_tokens":2,"total_tokens":1}`, `{"prompt_tokens":1e308}`, `{"total_tokens":9223372036854775808}`,
		`{"total_tokens":"12"}`, `{"total_tokens":1.5}`, `"x"`, `[]`, `7`, `{}`, `{"total_tokens":{"a":1}}`,
	} {
		step := simulator.Step{Text: "one two", Usage: simulator.UsageOnFinish, UsageValue: value}
		r, _ := gatewaytest.StartOne(t, step, step)
		r.BackendsLie = true
		if events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body); gatewaytest.TextOf(t, events) != "one two" || events[len(events)-1] != "[DONE]" {
			t.Errorf("usage %s: %q", value, events)
		}
		if body := r.Chat(gatewaytest.PlainHi).Succeeds(t).Body; !strings.Contains(body, `"usage":`+value) {
			t.Errorf("usage %s is not passed on as it was: %s", value, body)
		}
		if strings.Contains(r.Logs.String(), "completion_tokens") {
			t.Errorf("usage %s was believed", value)
		}
	}
}

func TestPlainCompletionBecomesAStream(t *testing.T) {
	t.Parallel()
	t.Run("text", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t, simulator.Step{Plain: true, Text: "whole at once"}, simulator.Step{Plain: true, Text: "whole at once"})
		for _, body := range []string{gatewaytest.StreamHi, streamUsage} {
			answer := r.Chat(body).Succeeds(t)
			if answer.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Errorf("Content-Type %q", answer.Header.Get("Content-Type"))
			}
			events := gatewaytest.EventsOf(t, answer.Body)
			if gatewaytest.TextOf(t, events) != "whole at once" || events[len(events)-1] != "[DONE]" || strings.Count(answer.Body, "[DONE]") != 1 {
				t.Errorf("events %q", events)
			}
			first := gatewaytest.DecodeChunk(t, events[0])
			if first.Object != "chat.completion.chunk" || first.Model != "m" || first.ID == "" || first.Choices[0].Delta.Role != "assistant" {
				t.Errorf("the first chunk is %s", events[0])
			}
			finished := slices.ContainsFunc(events[:len(events)-1], func(event string) bool {
				c := gatewaytest.DecodeChunk(t, event)
				return len(c.Choices) == 1 && c.Choices[0].FinishReason != nil && *c.Choices[0].FinishReason == "stop"
			})
			usage := strings.Count(answer.Body, `"choices":[],"usage":{`)
			if want := strings.Count(body, "include_usage"); !finished || usage != want {
				t.Errorf("finished %t, usage chunks %d, want %d: %q", finished, usage, want, events)
			}
		}
	})
	t.Run("tool calls", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t, simulator.Step{Plain: true})
		events := gatewaytest.EventsOf(t, r.Chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"weather"}],"tool_choice":"required",`+
			`"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]}`).Succeeds(t).Body)
		first := gatewaytest.DecodeChunk(t, events[0])
		if len(first.Choices) != 1 || len(first.Choices[0].Delta.ToolCalls) != 1 {
			t.Fatalf("events %q", events)
		}
		call := string(first.Choices[0].Delta.ToolCalls[0])
		for _, part := range []string{`"index":0`, `"name":"weather"`, `"type":"function"`, `"arguments":"{\"city\":`} {
			if !strings.Contains(call, part) {
				t.Errorf("no %s in %s", part, call)
			}
		}
		if !strings.Contains(events[1], `"finish_reason":"tool_calls"`) {
			t.Errorf("events %q", events)
		}
	})
	t.Run("several choices", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t, simulator.Step{Plain: true, Text: "x"})
		events := gatewaytest.EventsOf(t, r.Chat(`{"model":"m","stream":true,"n":2,"messages":[{"role":"user","content":"hi"}]}`).Succeeds(t).Body)
		seen := map[int]string{}
		for _, event := range events[:len(events)-1] {
			for _, choice := range gatewaytest.DecodeChunk(t, event).Choices {
				seen[choice.Index] += choice.Delta.Content
			}
		}
		if len(seen) != 2 || seen[0] != "x" || seen[1] != "x" {
			t.Errorf("choices %v of %q", seen, events)
		}
	})
}

// However a backend writes its lines and however the bytes are cut, the caller
// sees the same.
func TestFramingAndSlicesMakeNoDifference(t *testing.T) {
	t.Parallel()
	const text = "日本語 and 😀 and ascii"
	clean := func(events []string) []string {
		for i, event := range events {
			if id, rest, ok := strings.Cut(event, `,"object"`); ok && strings.HasPrefix(id, `{"id":`) { // differs by design
				event = rest
			}
			if before, after, ok := strings.Cut(event, `"created":`); ok {
				_, after, _ = strings.Cut(after, ",")
				event = before + after
			}
			events[i] = strings.ReplaceAll(event, " \"object\"", "\"object\"")
		}
		return events
	}
	r, _ := gatewaytest.StartOne(t, simulator.Step{Text: text})
	want := clean(gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body))
	for name, step := range map[string]simulator.Step{
		"comments":                 {Framing: simulator.Framing{Before: ": ping\n\n"}},
		"names and ids":            {Framing: simulator.Framing{Before: "event: message\nid: 7\nretry: 5\n"}},
		"CRLF":                     {Framing: simulator.Framing{LineEnd: "\r\n"}},
		"CR":                       {Framing: simulator.Framing{LineEnd: "\r"}},
		"no space":                 {Framing: simulator.Framing{NoSpace: true}},
		"several lines":            {Framing: simulator.Framing{MultiLine: true}},
		"bytes one by one":         {Slice: 1},
		"bytes one by one, CRLF":   {Slice: 1, Framing: simulator.Framing{LineEnd: "\r\n", MultiLine: true, Before: ":\r\n\r\n"}},
		"slices across characters": {Slice: 7},
		"byte order mark":          {Inject: "\ufeff"},
	} {
		t.Run(name, func(t *testing.T) {
			step.Text = text
			r, _ := gatewaytest.StartOne(t, step)
			got := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
			if name == "several lines" || name == "bytes one by one, CRLF" {
				for i := range got { // the line break became a space
					got[i] = strings.Replace(got[i], `, "object"`, `,"object"`, 1)
				}
			}
			if got = clean(got); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestEventsArriveOneByOne(t *testing.T) {
	t.Parallel()
	g := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", g.URL)))
	events := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	// The backend sends nothing more before it is told, so this event was not held back.
	if first, err := events.Next(); err != nil || first != gatewaytest.FirstChunk {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	g.Open <- struct{}{}
	rest, err := events.Rest()
	if err != nil || !slices.Equal(rest, []string{gatewaytest.LastChunk, "[DONE]"}) {
		t.Errorf("the rest: %q, %v", rest, err)
	}
}

func TestSilenceIsFilledWithComments(t *testing.T) {
	t.Parallel()
	g := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.ChatYAML(gatewaytest.Instance("m", g.URL)), KeepAlive: 20 * time.Millisecond})
	events := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	if first, err := events.Next(); err != nil || first != gatewaytest.FirstChunk {
		t.Fatalf("the first event: %q, %v", first, err)
	}
	for range 3 {
		comment, err := events.Next()
		if err != nil || comment != ": keep-alive" {
			t.Fatalf("in the silence came %q, %v", comment, err)
		}
	}
	g.Open <- struct{}{}
	rest, err := events.Rest()
	rest = slices.DeleteFunc(rest, func(event string) bool { return event == ": keep-alive" })
	if err != nil || !slices.Equal(rest, []string{gatewaytest.LastChunk, "[DONE]"}) {
		t.Errorf("the rest: %q, %v", rest, err)
	}
}

func TestNothingIsSentBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	// With comments every millisecond a head that is sent too early would be seen.
	b := gatewaytest.StartBackend(t, simulator.Step{FirstDelay: gatewaytest.Never})
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + "limits: {first-byte-timeout: 300ms}\n", KeepAlive: time.Millisecond})
	r.Chat(gatewaytest.StreamHi).FailsWith(t, http.StatusGatewayTimeout, "api_error", "upstream_timeout", "")
}

func TestLargeEvents(t *testing.T) {
	t.Parallel()
	event := func(size int) string {
		const head, tail = `{"id":"x","object":"chat.completion.chunk","created":1,"choices":[{"delta":{"content":"`, `"},"finish_reason":"stop"}],"model":"m"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	const limit = dialect.MaxEvent
	for name, size := range map[string]int{"64 KiB": 64 << 10, "1 MiB": 1 << 20, "nearly 32 MiB": limit - 1024} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, simulator.Step{Inject: "data: " + event(size) + "\n\n", After: 1, Stop: simulator.StopEnd})
			events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
			if len(events) != 3 || events[1] != event(size) || events[2] != "[DONE]" {
				t.Errorf("%d events, the second with %d bytes", len(events), len(events[min(1, len(events)-1)]))
			}
		})
	}
	for name, inject := range map[string]string{
		"over 32 MiB":         "data: " + event(limit+1) + "\n\n",
		"a line without end":  "data: " + strings.Repeat("x", limit),
		"many lines, 33 MiB":  strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", limit>>20+1) + "\n",
		"a comment, no end":   ": " + strings.Repeat("x", limit),
		"a field that is odd": strings.Repeat("x", limit),
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartOne(t, simulator.Step{Inject: inject, After: 1, Stop: simulator.StopStall})
			events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
			if len(events) != 2 || gatewaytest.ErrorOf(t, events[1]).Code != "upstream_error" {
				t.Errorf("%d events, the last is %.200s", len(events), events[len(events)-1])
			}
		})
	}
}

// Revoking a key refuses its next request. What a backend has begun to answer is paid for,
// and the caller gets it.
func TestAStreamGoesOnAfterItsKeyWasRevoked(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+"security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin")+"}], keys: [{id: k, key-sha256: "+gatewaytest.HashOf("key")+"}]}\n")
	stream := r.Open(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", gatewaytest.StreamHi, "Authorization", "Bearer key")
	defer stream.Body.Close()
	<-b.Entered
	r.API(http.MethodDelete, "/api/auth/keys/k", "", "Authorization", "Bearer admin").Is(t, 200)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer key").FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
	close(b.Open)
	if events, err := io.ReadAll(stream.Body); err != nil || !strings.Contains(string(events), " last") || !strings.HasSuffix(string(events), simulator.DoneEvent) {
		t.Errorf("%v %s", err, events)
	}
}
