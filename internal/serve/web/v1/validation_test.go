package v1_test

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

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// badBody is a body that is refused with 400.
type badBody struct{ name, body, code, param string }

// wrongTypes makes a row for every value that a field may not have.
func wrongTypes() (rows []badBody) {
	everything := []string{`true`, `false`, `7`, `1.5`, `"x"`, `[]`, `[1]`, `{}`, `{"a":1}`}
	fields := []struct{ name, allowed string }{
		{"stream", "true false"},
		{"max_tokens", "7"},
		{"max_completion_tokens", "7"},
		{"n", "7"},
		{"best_of", "7"},
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
				rows = append(rows, badBody{field.name + " " + value, gatewaytest.With(`"` + field.name + `":` + value), "invalid_value", field.name})
			}
		}
	}
	for _, value := range everything {
		if value != `"x"` {
			rows = append(rows, badBody{"model " + value, `{"model":` + value + `,` + gatewaytest.SomeMessages + `}`, "invalid_value", "model"})
		}
		if value != `[1]` && value != `{}` {
			rows = append(rows, badBody{"messages " + value, `{"model":"m","messages":` + value + `}`, "invalid_value", "messages"})
		}
		if value != `true` && value != `false` {
			rows = append(rows, badBody{"include_usage " + value, gatewaytest.With(`"stream_options":{"include_usage":` + value + `}`), "invalid_value", "stream_options.include_usage"})
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
			rows = append(rows, badBody{field + " " + value, gatewaytest.With(`"` + field + `":` + value), "invalid_value", field})
			rows = append(rows, badBody{field + " in extra_body " + value, gatewaytest.With(`"extra_body":{"` + field + `":` + value + `}`), "invalid_value", field})
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
		{"stop with a number", gatewaytest.With(`"stop":["a",1]`), "invalid_value", "stop"},
		{"stop with null", gatewaytest.With(`"stop":[null]`), "invalid_value", "stop"},
	}
}

func brokenJSON() []badBody {
	broken := func(name, body string) badBody { return badBody{name, body, "invalid_json", ""} }
	deep := func(levels int) string {
		return gatewaytest.With(`"deep":` + strings.Repeat("[", levels) + strings.Repeat("]", levels))
	}
	return []badBody{
		broken("empty", ""),
		broken("blank", " \n"),
		broken("null", "null"),
		broken("array", "[]"),
		broken("text", `"x"`),
		broken("number", "1"),
		broken("cut", gatewaytest.PlainHi[:len(gatewaytest.PlainHi)-1]),
		broken("trailing garbage", gatewaytest.PlainHi+"x"),
		broken("two documents", gatewaytest.PlainHi+gatewaytest.PlainHi),
		broken("byte order mark in the middle", gatewaytest.With("\xef\xbb\xbf\"a\":1")),
		broken("trailing comma", gatewaytest.With(`"a":1,`)),
		broken("single quotes", `{'model':'m'}`),
		broken("comment", `{"model":"m",`+gatewaytest.SomeMessages+` /* no */}`),
		broken("NaN", gatewaytest.With(`"a":NaN`)),
		broken("leading zero", gatewaytest.With(`"a":01`)),
		broken("plus sign", gatewaytest.With(`"a":+1`)),
		broken("bare decimal point", gatewaytest.With(`"a":1.`)),
		broken("hexadecimal", gatewaytest.With(`"a":0x1`)),
		broken("control character in a string", gatewaytest.With("\"a\":\"\x01\"")),
		broken("line break in a string", gatewaytest.With("\"a\":\"\n\"")),
		broken("unknown escape", gatewaytest.With(`"a":"\x"`)),
		broken("cut escape", gatewaytest.With(`"a":"\ud83"`)),
		broken("invalid UTF-8 in a string", gatewaytest.With("\"a\":\"\xff\"")),
		broken("overlong UTF-8", gatewaytest.With("\"a\":\"\xc0\xaf\"")),
		broken("encoded surrogate", gatewaytest.With("\"a\":\"\xed\xa0\x80\"")),
		broken("invalid UTF-8 in a key", gatewaytest.With("\"\xff\":1")),
		broken("model twice", `{"model":"m","model":"n",`+gatewaytest.SomeMessages+`}`),
		broken("stream twice", gatewaytest.With(`"stream":false,"stream":true`)),
		broken("a key twice, once escaped", gatewaytest.With(`"stream":false,"str\u0065am":true`)),
		broken("a key twice in a message", `{"model":"m","messages":[{"role":"user","role":"system","content":"x"}]}`),
		broken("a key twice far down", gatewaytest.With(`"a":{"b":[{"c":{"d":1,"e":2,"d":3}}]}`)),
		broken("a key twice among many", gatewaytest.With(`"a":{`+manyKeys(100)+`,"k50":1}`)),
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
		{"no model", `{` + gatewaytest.SomeMessages + `}`, "missing_parameter", "model"},
		{"null model", `{"model":null,` + gatewaytest.SomeMessages + `}`, "missing_parameter", "model"},
		{"empty model", `{"model":"",` + gatewaytest.SomeMessages + `}`, "missing_parameter", "model"},
		{"blank model", `{"model":"  ",` + gatewaytest.SomeMessages + `}`, "missing_parameter", "model"},
		{"model only in extra_body", `{"extra_body":{"model":"m"},` + gatewaytest.SomeMessages + `}`, "missing_parameter", "model"},
		{"model in capitals", `{"Model":"m",` + gatewaytest.SomeMessages + `}`, "invalid_json", ""},
		{"control character in the model", `{"model":"a\u0000b",` + gatewaytest.SomeMessages + `}`, "invalid_value", "model"},
		{"line break in the model", `{"model":"a\nb",` + gatewaytest.SomeMessages + `}`, "invalid_value", "model"},
		{"model of a megabyte", `{"model":"` + strings.Repeat("x", 1<<20) + `",` + gatewaytest.SomeMessages + `}`, "invalid_value", "model"},
		{"no messages", `{"model":"m"}`, "missing_parameter", "messages"},
		{"null messages", `{"model":"m","messages":null}`, "missing_parameter", "messages"},
		{"messages only in extra_body", `{"model":"m","extra_body":{` + gatewaytest.SomeMessages + `}}`, "missing_parameter", "messages"},
		{"empty object", `{}`, "missing_parameter", "model"},
	}
}

func TestBadRequestsAreRefusedAndReachNoBackend(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	tables := map[string][]badBody{
		"wrong type": wrongTypes(), "out of range": outOfRange(), "messages": badMessages(),
		"broken JSON": brokenJSON(), "missing": missingAndNames(),
	}
	for table, rows := range tables {
		t.Run(table, func(t *testing.T) {
			for _, row := range rows {
				t.Run(row.name, func(t *testing.T) {
					answer := r.Chat(row.body)
					fault := answer.FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, row.code, row.param)
					if len(fault.Message) > 500 || strings.Contains(answer.Body, ".go:") {
						t.Errorf("message %q", fault.Message)
					}
					if answer.Header.Get("X-Router-Attempts") != "0" {
						t.Errorf("attempts %q", answer.Header.Get("X-Router-Attempts"))
					}
				})
			}
		})
	}
	if stats := b.Stats(); stats.Arrived != 0 {
		t.Errorf("the backend got %d of the bad requests", stats.Arrived)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t) // and the gateway is well
}

func TestGoodRequestsAtTheEdges(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	message := func(text string) string { return `{"model":"m","messages":[` + text + `]}` }
	good := []string{
		message(`{"role":"system","content":"x"},{"role":"developer","content":"x"},{"role":"user","content":"x","name":"n"}`),
		message(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}`),
		message(`{"role":"assistant","tool_calls":[]},{"role":"function","name":"f","content":"x"}`),
		message(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,"}},{"type":"new","n":1}]}`),
		message(`{"role":"user","content":""}`),
		message(`{"role":"user","content":[],"name":null}`),
		gatewaytest.With(`"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127)),
		gatewaytest.With(manyKeys(1000)),
		" \t\r\n" + gatewaytest.PlainHi + " \t\r\n",
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
			good = append(good, gatewaytest.With(`"`+field+`":`+value))
		}
	}
	for _, body := range good {
		if answer := r.Chat(body); answer.Status != http.StatusOK {
			t.Errorf("%d for %.300s: %s", answer.Status, body, answer.Body)
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
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	fault := r.Chat(`{"model":"m","input":"hi"}`).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "missing_parameter", "messages")
	for _, word := range []string{"input", "Responses", "messages"} {
		if !strings.Contains(fault.Message, word) {
			t.Errorf("the message does not say %q: %s", word, fault.Message)
		}
	}
}

func TestUnsupportedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for _, encoding := range []string{"gzip", "br", "zstd", "deflate", "gzip, gzip"} {
		r.Chat("\x1f\x8b\x08 anything", "Content-Encoding", encoding).FailsWith(t, http.StatusUnsupportedMediaType, gatewaytest.InvalidRequest, "unsupported_media_type", "")
	}
	r.Chat("--x--", "Content-Type", "multipart/form-data; boundary=x").FailsWith(t, http.StatusUnsupportedMediaType, gatewaytest.InvalidRequest, "unsupported_media_type", "")
	r.Chat(gatewaytest.PlainHi, "Content-Encoding", "identity").Succeeds(t)
	if b.Stats().Arrived != 1 {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestTooLargeByContentLengthIsRefusedUnread(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for name, expect := range map[string]string{"at once": "", "before 100 Continue": "Expect: 100-continue\r\n"} {
		t.Run(name, func(t *testing.T) {
			// Not a byte of the body is sent, so an answer proves that none was waited for.
			answer := r.SendRaw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n" + expect + "\r\n")
			answer.FailsWith(t, http.StatusRequestEntityTooLarge, gatewaytest.InvalidRequest, "request_too_large", "")
			if !answer.Closes {
				t.Error("the connection stays open for a body that nobody reads")
			}
		})
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
}

func TestTooLargeByChunksIsRefusedAtTheLimit(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	const limit = 1 << 20
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"limits: {json-body: 1MiB}\n")
	conn := r.DialRaw()
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
	gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodPost).FailsWith(t, http.StatusRequestEntityTooLarge, gatewaytest.InvalidRequest, "request_too_large", "")
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
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"limits: {json-body: 64KiB}\n")
	body := gatewaytest.PlainHi + strings.Repeat(" ", 64<<10-len(gatewaytest.PlainHi))
	r.Chat(body).Succeeds(t)
	r.Chat(body+" ").FailsWith(t, http.StatusRequestEntityTooLarge, gatewaytest.InvalidRequest, "request_too_large", "")
	for length, status := range map[int]int{64 << 10: http.StatusOK, 64<<10 + 1: http.StatusRequestEntityTooLarge} {
		// A reader of unknown length is sent in chunks.
		request := r.Request(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", "x")
		request.Body, request.ContentLength = io.NopCloser(io.LimitReader(strings.NewReader(body+" "), int64(length))), -1
		response, err := r.Client.Do(request)
		if err != nil {
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
				continue
			}
			t.Fatal(err)
		}
		if answer := gatewaytest.ReadReply(response); answer.Status != status {
			t.Errorf("%d bytes in chunks: %d, want %d: %s", length, answer.Status, status, answer.Body)
		}
	}
}

func TestBrokenUploadIsNoServerError(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for name, test := range map[string]struct{ request, code string }{
		"no chunk size":   {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid_body"},
		"chunk too long":  {"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n", "invalid_body"},
		"huge chunk size": {"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "invalid_body"},
	} {
		t.Run(name, func(t *testing.T) {
			r.SendRaw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+test.request).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, test.code, "")
		})
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
}

// A key in another case than the field's goes nowhere: backends that fold case
// would go by it.
func TestKeysInAnotherCaseReachNoBackend(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for _, body := range []string{
		`{"model":"m","Model":"secret","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","STREAM":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","me\u017fsages":[],"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","extra_body":{"\u212aey":1,"MODEL":"secret"},"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","Extra_Body":{"model":"secret"},"messages":[{"role":"user","content":"hi"}]}`,
	} {
		r.Chat(body).FailsWith(t, 400, "invalid_request_error", "invalid_json", "")
	}
	var form bytes.Buffer
	contentType := gatewaytest.WriteForm(t, &form, gatewaytest.Field("model", "m"), gatewaytest.Field("Model", "secret"), gatewaytest.Recording())
	r.Do(http.MethodPost, "/v1/audio/transcriptions", form.String(), "Content-Type", contentType).FailsWith(t, 400, "invalid_request_error", "invalid_value", "model")
	if got := b.Stats().Arrived; got != 0 {
		t.Errorf("%d requests reached the backend", got)
	}
}
