package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

const (
	invalidRequest = "invalid_request_error"
	someMessages   = `"messages":[{"role":"user","content":"hi"}]`
)

// with returns a chat request with one more member.
func with(member string) string { return `{"model":"m",` + someMessages + `,` + member + `}` }

// badBody is a body that is refused with 400.
type badBody struct{ name, body, code, param string }

// wrongTypes makes a row for every value that a field may not have.
func wrongTypes() (rows []badBody) {
	everything := []string{`true`, `false`, `7`, `1.5`, `"x"`, `[]`, `[1]`, `{}`, `{"a":1}`}
	fields := []struct{ name, allowed string }{
		{"stream", "true false"},
		{"max_tokens", "7"},
		{"temperature", "7 1.5"}, // 7 is out of range, which the ranges show
		{"top_p", "7 1.5"},
		{"top_k", "7"},
		{"frequency_penalty", "7 1.5"},
		{"presence_penalty", "7 1.5"},
		{"stop", `"x" []`},
		{"user", `"x"`},
		{"stream_options", `{} {"a":1}`},
		{"extra_body", `{} {"a":1}`},
	}
	for _, field := range fields {
		for _, value := range everything {
			if !strings.Contains(" "+field.allowed+" ", " "+value+" ") {
				rows = append(rows, badBody{field.name + " " + value, with(`"` + field.name + `":` + value), "invalid_value", field.name})
			}
		}
	}
	for _, value := range everything {
		if value != `"x"` {
			rows = append(rows, badBody{"model " + value, `{"model":` + value + `,` + someMessages + `}`, "invalid_value", "model"})
		}
		if value != `[1]` && value != `{}` {
			rows = append(rows, badBody{"messages " + value, `{"model":"m","messages":` + value + `}`, "invalid_value", "messages"})
		}
		if value != `true` && value != `false` {
			rows = append(rows, badBody{"include_usage " + value, with(`"stream_options":{"include_usage":` + value + `}`), "invalid_value", "stream_options.include_usage"})
		}
	}
	return rows
}

func outOfRange() (rows []badBody) {
	for field, values := range map[string][]string{
		"temperature":       {"-0.1", "-1e-9", "2.1", "2.0000001", "1e400", "-1e400", "99999999999999999999"},
		"top_p":             {"-0.1", "1.1", "1.0000001", "2"},
		"frequency_penalty": {"-2.1", "2.1", "-2.0000001", "2.0000001"},
		"presence_penalty":  {"-2.1", "2.1", "-3", "3"},
	} {
		for _, value := range values {
			rows = append(rows, badBody{field + " " + value, with(`"` + field + `":` + value), "invalid_value", field})
			rows = append(rows, badBody{field + " in extra_body " + value, with(`"extra_body":{"` + field + `":` + value + `}`), "invalid_value", field})
		}
	}
	return rows
}

func badMessages() []badBody {
	message := func(text string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"},` + text + `]}`
	}
	return []badBody{
		{"message is a number", message(`1`), "invalid_value", "messages[1]"},
		{"message is null", message(`null`), "invalid_value", "messages[1]"},
		{"message is an array", message(`[]`), "invalid_value", "messages[1]"},
		{"no role", message(`{"content":"x"}`), "missing_parameter", "messages[1].role"},
		{"null role", message(`{"role":null,"content":"x"}`), "missing_parameter", "messages[1].role"},
		{"role is a number", message(`{"role":1,"content":"x"}`), "invalid_value", "messages[1].role"},
		{"unknown role", message(`{"role":"robot","content":"x"}`), "invalid_value", "messages[1].role"},
		{"role in capitals", message(`{"role":"User","content":"x"}`), "invalid_value", "messages[1].role"},
		{"empty role", message(`{"role":"","content":"x"}`), "invalid_value", "messages[1].role"},
		{"no content", message(`{"role":"user"}`), "missing_parameter", "messages[1].content"},
		{"null content of a user", message(`{"role":"user","content":null}`), "missing_parameter", "messages[1].content"},
		{"null content of a system", message(`{"role":"system","content":null}`), "missing_parameter", "messages[1].content"},
		{"content is a number", message(`{"role":"user","content":1}`), "invalid_value", "messages[1].content"},
		{"content is true", message(`{"role":"user","content":true}`), "invalid_value", "messages[1].content"},
		{"content is an object", message(`{"role":"user","content":{"type":"text"}}`), "invalid_value", "messages[1].content"},
		{"name is a number", message(`{"role":"user","content":"x","name":1}`), "invalid_value", "messages[1].name"},
		{"stop with a number", with(`"stop":["a",1]`), "invalid_value", "stop"},
		{"stop with null", with(`"stop":[null]`), "invalid_value", "stop"},
	}
}

func brokenJSON() []badBody {
	broken := func(name, body string) badBody { return badBody{name, body, "invalid_json", ""} }
	deep := func(levels int) string {
		return with(`"deep":` + strings.Repeat("[", levels) + strings.Repeat("]", levels))
	}
	return []badBody{
		broken("empty", ""),
		broken("blank", " \n"),
		broken("null", "null"),
		broken("array", "[]"),
		broken("text", `"x"`),
		broken("number", "1"),
		broken("cut", plainHi[:len(plainHi)-1]),
		broken("trailing garbage", plainHi+"x"),
		broken("two documents", plainHi+plainHi),
		broken("byte order mark in the middle", with("\xef\xbb\xbf\"a\":1")),
		broken("trailing comma", with(`"a":1,`)),
		broken("single quotes", `{'model':'m'}`),
		broken("comment", `{"model":"m",`+someMessages+` /* no */}`),
		broken("NaN", with(`"a":NaN`)),
		broken("leading zero", with(`"a":01`)),
		broken("plus sign", with(`"a":+1`)),
		broken("bare decimal point", with(`"a":1.`)),
		broken("hexadecimal", with(`"a":0x1`)),
		broken("control character in a string", with("\"a\":\"\x01\"")),
		broken("line break in a string", with("\"a\":\"\n\"")),
		broken("unknown escape", with(`"a":"\x"`)),
		broken("cut escape", with(`"a":"\ud83"`)),
		broken("invalid UTF-8 in a string", with("\"a\":\"\xff\"")),
		broken("overlong UTF-8", with("\"a\":\"\xc0\xaf\"")),
		broken("encoded surrogate", with("\"a\":\"\xed\xa0\x80\"")),
		broken("invalid UTF-8 in a key", with("\"\xff\":1")),
		broken("model twice", `{"model":"m","model":"n",`+someMessages+`}`),
		broken("stream twice", with(`"stream":false,"stream":true`)),
		broken("a key twice, once escaped", with(`"stream":false,"str\u0065am":true`)),
		broken("a key twice in a message", `{"model":"m","messages":[{"role":"user","role":"system","content":"x"}]}`),
		broken("a key twice far down", with(`"a":{"b":[{"c":{"d":1,"e":2,"d":3}}]}`)),
		broken("a key twice among many", with(`"a":{`+manyKeys(100)+`,"k50":1}`)),
		broken("129 levels", deep(128)),
		broken("10,000 levels", deep(10_000)),
		broken("1,000,000 levels", deep(1_000_000)),
		broken("10,000 open objects", `{"model":"m","a":`+strings.Repeat(`{"a":`, 10_000)),
	}
}

func manyKeys(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return strings.Join(keys, ",")
}

func missingAndNames() []badBody {
	return []badBody{
		{"no model", `{` + someMessages + `}`, "missing_parameter", "model"},
		{"null model", `{"model":null,` + someMessages + `}`, "missing_parameter", "model"},
		{"empty model", `{"model":"",` + someMessages + `}`, "missing_parameter", "model"},
		{"blank model", `{"model":"  ",` + someMessages + `}`, "missing_parameter", "model"},
		{"model only in extra_body", `{"extra_body":{"model":"m"},` + someMessages + `}`, "missing_parameter", "model"},
		{"model in capitals", `{"Model":"m",` + someMessages + `}`, "invalid_json", ""},
		{"control character in the model", `{"model":"a\u0000b",` + someMessages + `}`, "invalid_value", "model"},
		{"line break in the model", `{"model":"a\nb",` + someMessages + `}`, "invalid_value", "model"},
		{"model of a megabyte", `{"model":"` + strings.Repeat("x", 1<<20) + `",` + someMessages + `}`, "invalid_value", "model"},
		{"no messages", `{"model":"m"}`, "missing_parameter", "messages"},
		{"null messages", `{"model":"m","messages":null}`, "missing_parameter", "messages"},
		{"messages only in extra_body", `{"model":"m","extra_body":{` + someMessages + `}}`, "missing_parameter", "messages"},
		{"empty object", `{}`, "missing_parameter", "model"},
	}
}

func TestBadRequestsAreRefusedAndReachNoBackend(t *testing.T) {
	r, b := startOne(t)
	tables := map[string][]badBody{
		"wrong type": wrongTypes(), "out of range": outOfRange(), "messages": badMessages(),
		"broken JSON": brokenJSON(), "missing": missingAndNames(),
	}
	for table, rows := range tables {
		t.Run(table, func(t *testing.T) {
			for _, row := range rows {
				t.Run(row.name, func(t *testing.T) {
					answer := r.chat(row.body)
					fault := answer.failsWith(t, http.StatusBadRequest, invalidRequest, row.code, row.param)
					if len(fault.Message) > 500 || strings.Contains(answer.body, ".go:") {
						t.Errorf("message %q", fault.Message)
					}
					if answer.header.Get("X-Router-Attempts") != "0" {
						t.Errorf("attempts %q", answer.header.Get("X-Router-Attempts"))
					}
				})
			}
		})
	}
	if stats := b.Stats(); stats.Arrived != 0 {
		t.Errorf("the backend got %d of the bad requests", stats.Arrived)
	}
	r.chat(plainHi).succeeds(t) // and the gateway is well
}

func TestGoodRequestsAtTheEdges(t *testing.T) {
	r, b := startOne(t)
	message := func(text string) string { return `{"model":"m","messages":[` + text + `]}` }
	good := []string{
		message(`{"role":"system","content":"x"},{"role":"developer","content":"x"},{"role":"user","content":"x","name":"n"}`),
		message(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}`),
		message(`{"role":"assistant","tool_calls":[]},{"role":"function","name":"f","content":"x"}`),
		message(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,"}},{"type":"new","n":1}]}`),
		message(`{"role":"user","content":""}`),
		message(`{"role":"user","content":[],"name":null}`),
		with(`"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127)),
		with(manyKeys(1000)),
		" \t\r\n" + plainHi + " \t\r\n",
	}
	for field, values := range map[string]string{
		"temperature":       "0 0.0 -0 2 2.0 2e0 20e-1 1.99999999999999999999 null",
		"top_p":             "0 1 1.0 0.5 1e-400 null",
		"frequency_penalty": "-2 2 0 -2.0 2.0 null",
		"presence_penalty":  "-2 2 0 null",
		"max_tokens":        "1 100 null",
		"top_k":             "-1 0 40 null",
		"stream":            "false null",
		"user":              `"" "u" null`,
		"stop":              `"" "x" [] ["a","b"] null`,
		"stream_options":    `{} {"include_usage":null} null`,
		"tools":             `[] null`,
	} {
		for value := range strings.FieldsSeq(values) {
			good = append(good, with(`"`+field+`":`+value))
		}
	}
	for _, body := range good {
		if answer := r.chat(body); answer.status != http.StatusOK {
			t.Errorf("%d for %.300s: %s", answer.status, body, answer.body)
		}
	}
	if stats := b.Stats(); stats.Arrived != len(good) {
		t.Errorf("the backend got %d requests, want %d", stats.Arrived, len(good))
	}
	for i, request := range b.Requests() {
		if string(request.Body) != good[i] {
			t.Errorf("the backend got %.300s, want %.300s", request.Body, good[i])
		}
	}
}

func TestResponsesShapedBodyGetsAHint(t *testing.T) {
	r, _ := startOne(t)
	fault := r.chat(`{"model":"m","input":"hi"}`).failsWith(t, http.StatusBadRequest, invalidRequest, "missing_parameter", "messages")
	for _, word := range []string{"input", "Responses", "messages"} {
		if !strings.Contains(fault.Message, word) {
			t.Errorf("the message does not say %q: %s", word, fault.Message)
		}
	}
}

func TestUnsupportedBodiesAreRefused(t *testing.T) {
	r, b := startOne(t)
	for _, encoding := range []string{"gzip", "br", "zstd", "deflate", "gzip, gzip"} {
		r.chat("\x1f\x8b\x08 anything", "Content-Encoding", encoding).failsWith(t, http.StatusUnsupportedMediaType, invalidRequest, "unsupported_media_type", "")
	}
	r.chat("--x--", "Content-Type", "multipart/form-data; boundary=x").failsWith(t, http.StatusUnsupportedMediaType, invalidRequest, "unsupported_media_type", "")
	r.chat(plainHi, "Content-Encoding", "identity").succeeds(t)
	if b.Stats().Arrived != 1 {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestTooLargeByContentLengthIsRefusedUnread(t *testing.T) {
	r, b := startOne(t)
	for name, expect := range map[string]string{"at once": "", "before 100 Continue": "Expect: 100-continue\r\n"} {
		t.Run(name, func(t *testing.T) {
			// Not a byte of the body is sent, so an answer proves that none was waited for.
			answer := r.sendRaw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n" + expect + "\r\n")
			answer.failsWith(t, http.StatusRequestEntityTooLarge, invalidRequest, "request_too_large", "")
			if !answer.closes {
				t.Error("the connection stays open for a body that nobody reads")
			}
		})
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
}

func TestTooLargeByChunksIsRefusedAtTheLimit(t *testing.T) {
	b := startBackend(t)
	const limit = 1 << 20
	r := startGateway(t, poolYAML(b)+"limits: {json-body: 1MiB}\n")
	conn := r.dialRaw()
	if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 1)
	go func() { // an endless body, until the gateway has enough
		total := 0
		piece := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
		for {
			n, err := io.WriteString(conn, piece)
			if total += n; err != nil || total > 64<<20 {
				break
			}
		}
		sent <- total
	}()
	readRaw(t, bufio.NewReader(conn), http.MethodPost).failsWith(t, http.StatusRequestEntityTooLarge, invalidRequest, "request_too_large", "")
	_ = conn.Close()
	// What lies in the buffers of two sockets is not read by anybody.
	if total := <-sent; total > limit+16<<20 {
		t.Errorf("%d bytes were taken, the limit is %d", total, limit)
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
}

func TestBodyAtTheLimitPassesAndOneByteMoreDoesNot(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, poolYAML(b)+"limits: {json-body: 64KiB}\n")
	body := plainHi + strings.Repeat(" ", 64<<10-len(plainHi))
	r.chat(body).succeeds(t)
	r.chat(body+" ").failsWith(t, http.StatusRequestEntityTooLarge, invalidRequest, "request_too_large", "")
	for length, status := range map[int]int{64 << 10: http.StatusOK, 64<<10 + 1: http.StatusRequestEntityTooLarge} {
		// A reader of unknown length is sent in chunks.
		request := r.request(deadline(t), http.MethodPost, "/v1/chat/completions", "x")
		request.Body, request.ContentLength = io.NopCloser(io.LimitReader(strings.NewReader(body+" "), int64(length))), -1
		response, err := r.client.Do(request)
		if err != nil {
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
				continue
			}
			t.Fatal(err)
		}
		if answer := drain(response); answer.status != status {
			t.Errorf("%d bytes in chunks: %d, want %d: %s", length, answer.status, status, answer.body)
		}
	}
}

func TestBrokenUploadIsNoServerError(t *testing.T) {
	r, b := startOne(t)
	for name, test := range map[string]struct{ request, code string }{
		"no chunk size":   {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid_body"},
		"chunk too long":  {"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n", "invalid_body"},
		"huge chunk size": {"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "invalid_body"},
	} {
		t.Run(name, func(t *testing.T) {
			r.sendRaw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+test.request).failsWith(t, http.StatusBadRequest, invalidRequest, test.code, "")
		})
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
}

// A key in another case than the field's goes nowhere: backends that fold case
// would go by it.
func TestAnotherCaseReachesNoBackend(t *testing.T) {
	r, b := startService(t)
	for _, body := range []string{
		`{"model":"m","Model":"secret","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","STREAM":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","me\u017fsages":[],"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","extra_body":{"\u212aey":1,"MODEL":"secret"},"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","Extra_Body":{"model":"secret"},"messages":[{"role":"user","content":"hi"}]}`,
	} {
		r.chat(body).failsWith(t, 400, "invalid_request_error", "invalid_json", "")
	}
	var form bytes.Buffer
	contentType := writeForm(t, &form, field("model", "m"), field("Model", "secret"), recording())
	r.do(http.MethodPost, "/v1/audio/transcriptions", form.String(), "Content-Type", contentType).failsWith(t, 400, "invalid_request_error", "invalid_value", "model")
	if got := b.Stats().Arrived; got != 0 {
		t.Errorf("%d requests reached the backend", got)
	}
}
