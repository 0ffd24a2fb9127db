package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// timedPart is a part of a backend's answer, and how long after the one before it is sent.
type timedPart struct {
	after time.Duration
	text  string
}

// answerInTime makes the desk's instances answer every call with these parts, over
// connections that exist in memory only. What it returns closes them.
func (d *desk) answerInTime(contentType string, parts []timedPart) (stop func()) {
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		from := bufio.NewReader(conn)
		if call, err := http.ReadRequest(from); err == nil {
			_, _ = io.Copy(io.Discard, call.Body)
		}
		for n, part := range parts {
			<-time.After(part.after)
			if n == 0 {
				part.text = "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nConnection: close\r\n\r\n" + part.text
			}
			if _, err := io.WriteString(conn, part.text); err != nil {
				return
			}
		}
	}
	d.client = transport.New(transport.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	}})
	return d.client.Close
}

// record sends a request for a chat to the desk and returns its record.
func (d *desk) record(body string) *calls.Record {
	req := new(schema.Request)
	if err := req.ParseChat([]byte(body)); err != nil {
		d.t.Fatal(err)
	}
	record := newRecord()
	_ = d.Do(context.Background(), &Request{Asks: req, Caller: &access.Caller{}, Record: record}, newClientConn())
	return record
}

// chunk returns an event of a stream.
func chunk(delta, finish string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
}

// An engine answers with the role alone after 21 ms, and has worked on the prompt after
// 340 ms: the second is when the first token came.
func TestFirstTokenIsTheFirstContent(t *testing.T) {
	t.Parallel()
	const (
		stream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
		plain  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
		whole  = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a b c"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":5,"total_tokens":6}}`
		usage  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":5,"total_tokens":6}}` + "\n\n"
		end    = "data: [DONE]\n\n"
		ms     = time.Millisecond
	)
	role, text, stop := chunk(`{"role":"assistant","content":""}`, "null"), chunk(`{"content":"a"}`, "null"), chunk("{}", `"stop"`)
	for name, c := range map[string]struct {
		body, contentType           string
		parts                       []timedPart
		begins, firstToken, perWord time.Duration
	}{
		"the role first":        {stream, TypeEvents, []timedPart{{21 * ms, role}, {319 * ms, text}, {80 * ms, text + stop + usage + end}}, 21 * ms, 340 * ms, 20 * ms},
		"text first":            {stream, TypeEvents, []timedPart{{21 * ms, text}, {40 * ms, text}, {40 * ms, stop + usage + end}}, 21 * ms, 21 * ms, 20 * ms},
		"thoughts first":        {stream, TypeEvents, []timedPart{{21 * ms, role}, {9 * ms, chunk(`{"reasoning_content":"hm"}`, "null")}, {40 * ms, text}, {0, stop + usage + end}}, 21 * ms, 30 * ms, 10 * ms},
		"a call first":          {stream, TypeEvents, []timedPart{{21 * ms, role}, {9 * ms, chunk(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}`, "null")}, {40 * ms, stop + usage + end}}, 21 * ms, 30 * ms, 10 * ms},
		"no usage":              {stream, TypeEvents, []timedPart{{21 * ms, role}, {9 * ms, text}, {40 * ms, stop + end}}, 21 * ms, 30 * ms, 0},
		"no content":            {stream, TypeEvents, []timedPart{{21 * ms, role}, {9 * ms, stop + usage + end}}, 21 * ms, 0, 0},
		"broken off":            {stream, TypeEvents, []timedPart{{21 * ms, role}, {9 * ms, text + usage}}, 21 * ms, 30 * ms, 0},
		"a whole answer":        {plain, TypeJSON, []timedPart{{21 * ms, whole[:20]}, {9 * ms, whole[20:]}}, 30 * ms, 30 * ms, 0},
		"whole and not events":  {stream, TypeJSON, []timedPart{{21 * ms, whole[:20]}, {9 * ms, whole[20:]}}, 30 * ms, 30 * ms, 0},
		"one token":             {stream, TypeEvents, []timedPart{{21 * ms, text}, {9 * ms, stop + `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\n" + end}}, 21 * ms, 21 * ms, 0},
		"all in the same bytes": {stream, TypeEvents, []timedPart{{21 * ms, role + text + stop + usage + end}}, 21 * ms, 21 * ms, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, 1, func(*config.Service) {})
				defer d.answerInTime(c.contentType, c.parts)()
				record := d.record(c.body)
				if record.FirstByte != c.begins || record.FirstToken != c.firstToken || record.PerToken != c.perWord {
					t.Errorf("the answer begins after %v, its first token comes after %v, others every %v; want %v, %v and %v (%s)",
						record.FirstByte, record.FirstToken, record.PerToken, c.begins, c.firstToken, c.perWord, record.Code)
				}
			})
		})
	}
}

// A client of the Messages API that wants no thinking gets none of it, but the engine
// has worked on the prompt when it thinks.
func TestFirstTokenMayBeAThoughtThatNobodySees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(*config.Service) {})
		defer d.answerInTime(TypeEvents, []timedPart{
			{time.Second, chunk(`{"role":"assistant","content":""}`, "null")},
			{time.Second, chunk(`{"reasoning_content":"hm"}`, "null")},
			{time.Minute, chunk(`{"content":"a"}`, `"stop"`) + "data: [DONE]\n\n"},
		})()
		req, record, to := new(schema.Request), newRecord(), newClientConn()
		if err := messages.ReadRequest(req, []byte(`{"model":"m","max_tokens":9,"stream":true,"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"hi"}]}`)); err != nil {
			t.Fatal(err)
		}
		err := d.Do(context.Background(), &Request{Asks: req, Client: messages.Client, Caller: &access.Caller{}, Record: record}, to)
		if err != nil || record.Code != "" || record.FirstByte != time.Second || record.FirstToken != 2*time.Second {
			t.Errorf("%v %s, the answer begins after %v, its first token comes after %v", err, record.Code, record.FirstByte, record.FirstToken)
		}
		var sent strings.Builder
		for n, part := range to.got() {
			if part.text == "" {
				t.Errorf("sending %d is empty", n)
			}
			sent.WriteString(part.text)
		}
		sent.WriteString(to.held.String())
		if text := sent.String(); strings.Contains(text, "hm") || strings.Count(text, "content_block_start\n") != 1 || !strings.Contains(text, "message_stop") {
			t.Errorf("sent %s", text)
		}
	})
}

// The limit for the first token of a stream ends with its first event, as do all other
// decisions that wait for an answer: only then is it known whether the backend works.
func TestFirstTokenTimeoutEndsWithTheFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 1, func(s *config.Service) { s.Timeouts.FirstToken = schema.Duration(time.Second) })
		defer d.answerInTime(TypeEvents, []timedPart{
			{0, chunk(`{"role":"assistant","content":""}`, "null")}, {time.Minute, chunk(`{"content":"a"}`, `"stop"`) + "data: [DONE]\n\n"},
		})()
		if record := d.record(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`); record.Code != "" || record.FirstToken != time.Minute {
			t.Errorf("%s, first token after %v", record.Code, record.FirstToken)
		}
	})
}
