package web_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// chunked is a body in chunked coding.
func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

func TestMalformedHTTPGetsAnErrorBody(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"no request line":        {"nonsense\r\n\r\n", 400},
		"no version":             {"GET /v1/models\r\n\r\n", 400},
		"unknown version":        {"GET /v1/models HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		"space in the target":    {"GET /v1/mod els HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"broken escape":          {"GET /v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"no host":                {"GET /v1/models HTTP/1.1\r\n\r\n", 400},
		"two hosts":              {"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
		"space before the colon": {"GET /v1/models HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400},
		"no colon":               {"GET /v1/models HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", 400},
		"odd header name":        {"GET /v1/models HTTP/1.1\r\nHost: x\r\na(b): c\r\n\r\n", 400},
		"control in a header":    {"GET /v1/models HTTP/1.1\r\nHost: x\r\na: b\x01\r\n\r\n", 400},
		"negative length":        {gatewaytest.PostHead + "Content-Length: -1\r\n\r\n", 400},
		"length that is a word":  {gatewaytest.PostHead + "Content-Length: ten\r\n\r\n", 400},
		"two lengths":            {gatewaytest.PostHead + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		"unknown coding":         {gatewaytest.PostHead + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"two codings":            {gatewaytest.PostHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		"headers of 70 KiB":      {"GET /v1/models HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", 431},
		"target of 70 KiB":       {"GET /v1/models?" + strings.Repeat("x", 70<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		"10,000 headers":         {"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: 12345678\r\n", 10_000) + "\r\n", 431},
		"unknown expectation":    {gatewaytest.PostHead + "Expect: a-miracle\r\nContent-Length: 0\r\n\r\n", 417},
	} {
		t.Run(name, func(t *testing.T) {
			answer := r.SendRaw(test.request)
			answer.FailsWith(t, test.status, gatewaytest.InvalidRequest, "invalid_http", "")
			if !answer.Closes {
				t.Error("the connection stays open after what cannot be understood")
			}
		})
	}
	if b.Stats().Arrived != 0 {
		t.Error("the backend got a request")
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

func TestHeadersUpTo60KiBAreAccepted(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	r.Chat(gatewaytest.PlainHi, "X-Long", strings.Repeat("x", 60<<10)).Succeeds(t)
}

// Two lengths for one body are how requests are smuggled past a proxy.
func TestContentLengthBesideTransferEncodingIsRefused(t *testing.T) {
	t.Parallel()
	both := chunked(gatewaytest.PlainHi)
	length := fmt.Sprintf("Content-Length: %d\r\n", len(both))
	for name, request := range map[string]string{
		"length first":  gatewaytest.PostHead + length + "Transfer-Encoding: chunked\r\n\r\n" + both,
		"length last":   gatewaytest.PostHead + "Transfer-Encoding: chunked\r\n" + length + "\r\n" + both,
		"in any case":   gatewaytest.PostHead + "tRANSFER-eNCODING: chunked\r\ncONTENT-lENGTH: 3\r\n\r\n" + both,
		"length zero":   gatewaytest.PostHead + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + both,
		"far apart":     gatewaytest.PostHead + length + "X: " + strings.Repeat("x", 20_000) + "\r\nTransfer-Encoding: chunked\r\n\r\n" + both,
		"without CR":    strings.ReplaceAll(gatewaytest.PostHead, "\r", "") + "Content-Length: 3\nTransfer-Encoding: chunked\n\n" + both,
		"unknown route": "POST /nowhere HTTP/1.1\r\nHost: x\r\n" + length + "Transfer-Encoding: chunked\r\n\r\n" + both,
	} {
		t.Run(name, func(t *testing.T) {
			r, b := gatewaytest.StartOne(t)
			answer := r.SendRaw(request)
			answer.FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
			if !answer.Closes || b.Stats().Arrived != 0 {
				t.Errorf("the connection closes: %t; the backend got %d requests", answer.Closes, b.Stats().Arrived)
			}
		})
	}
	t.Run("either alone is fine", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t)
		r.SendRaw(gatewaytest.RawPost(gatewaytest.PlainHi, "Connection: close\r\n")).Succeeds(t)
		r.SendRaw(gatewaytest.PostHead + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi)).Succeeds(t)
	})
	t.Run("in pieces", func(t *testing.T) {
		r, _ := gatewaytest.StartOne(t)
		conn := r.DialRaw()
		for _, c := range []byte(gatewaytest.PostHead + length + "Transfer-Encoding: chunked\r\n\r\n") {
			if _, err := conn.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodPost).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
	})
}

// What is refused on a fresh connection is refused on a used one, too: nothing
// that went before may blind the gateway.
func TestContentLengthBesideTransferEncodingIsRefusedLater(t *testing.T) {
	t.Parallel()
	smuggled := gatewaytest.PostHead + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi)
	blind := strings.Repeat("a\r\n\r\n", 2000)
	for name, first := range map[string]string{
		"after an answer":             gatewaytest.RawPost(gatewaytest.PlainHi),
		"after a body nobody read":    fmt.Sprintf("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(blind), blind),
		"after a chunked request":     gatewaytest.PostHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi),
		"after a request for a model": "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pipelined %t", name, together), func(t *testing.T) {
				r, _ := gatewaytest.StartOne(t)
				conn := r.DialRaw()
				replies := bufio.NewReader(conn)
				send := func(text string) {
					if _, err := io.WriteString(conn, text); err != nil {
						t.Fatal(err)
					}
				}
				if together {
					send(first + smuggled)
					gatewaytest.ReadRaw(t, replies, http.MethodPost)
				} else {
					send(first)
					gatewaytest.ReadRaw(t, replies, http.MethodPost)
					send(smuggled)
				}
				gatewaytest.ReadRaw(t, replies, http.MethodPost).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
			})
		}
	}
}

// A head that comes in two pieces, of which the first came along with the request
// before it, is seen whole. The cut is such that the second piece alone could be
// taken for a head.
func TestTwoLengthsBehindAPipelinedRequestAreRefused(t *testing.T) {
	t.Parallel()
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nX-A: "
	for name, second := range map[string]string{
		"like a request line": "P\r\n\r\n",
		"a whole one":         "POST /v1/chat/completions HTTP/1.1\r\n\r\n",
		"nothing but its end": "\r\n\r\n",
	} {
		for first, count := range map[string]int{gatewaytest.RawPost(gatewaytest.PlainHi): 1, gatewaytest.PostHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi): 1, gatewaytest.RawPost(gatewaytest.PlainHi) + gatewaytest.RawPost(gatewaytest.PlainHi): 2} {
			t.Run(name, func(t *testing.T) {
				r, b := gatewaytest.StartOne(t)
				conn := r.DialRaw()
				replies := bufio.NewReader(conn)
				for _, piece := range []string{first + head, second + chunked(gatewaytest.PlainHi)} {
					if _, err := io.WriteString(conn, piece); err != nil {
						t.Fatal(err)
					}
					if piece == first+head {
						for range count {
							gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
						}
					}
				}
				refused := gatewaytest.ReadRaw(t, replies, http.MethodPost)
				refused.FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_body", "")
				if got := b.Stats().Arrived; got != count || !refused.Closes {
					t.Errorf("%d requests reached the backend, the connection ends: %t", got, refused.Closes)
				}
			})
		}
	}
}

// A body is no head, whatever it looks like.
func TestBodyThatLooksLikeAHeadIsNotReadAsOne(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	body := strings.Repeat("\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400)
	conn := r.DialRaw()
	replies := bufio.NewReader(conn)
	for range 3 {
		request := fmt.Sprintf("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		gatewaytest.ReadRaw(t, replies, http.MethodPost).FailsWith(t, 404, "not_found_error", "unknown_endpoint", "")
		for _, good := range []string{gatewaytest.RawPost(gatewaytest.PlainHi), gatewaytest.PostHead + "Transfer-Encoding: chunked\r\n\r\n" + chunked(gatewaytest.PlainHi)} {
			if _, err := io.WriteString(conn, good); err != nil {
				t.Fatal(err)
			}
			gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	conn := r.DialRaw()
	var requests strings.Builder
	for n := range 10 {
		requests.WriteString(gatewaytest.RawPost(strings.Replace(gatewaytest.PlainHi, "hi", fmt.Sprintf("number %d.", n), 1), fmt.Sprintf("X-Request-Id: id-%d\r\n", n)))
	}
	if _, err := io.WriteString(conn, requests.String()); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(conn)
	for n := range 10 {
		answer := gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
		if answer.Header.Get("X-Request-Id") != fmt.Sprintf("id-%d", n) || !strings.Contains(answer.Body, fmt.Sprintf("number %d.", n)) {
			t.Errorf("answer %d is %s %s", n, answer.Header.Get("X-Request-Id"), answer.Body)
		}
	}
}

func TestSlowHeadIsClosed(t *testing.T) {
	if got := gatewaytest.Start(t, "").Ports[0].Options.HeadTime; got != 15*time.Second {
		t.Errorf("a head may take %s, want 15s", got)
	}
	r := gatewaytest.StartWith(t, gatewaytest.Setup{HeadTime: 100 * time.Millisecond})
	for name, sent := range map[string]string{"nothing": "", "half a head": "GET /v1/models HTTP/1.1\r\nHost: x\r\n"} {
		t.Run(name, func(t *testing.T) {
			conn := r.DialRaw()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if content, err := io.ReadAll(conn); err != nil || strings.HasPrefix(string(content), "HTTP/1.1 2") {
				t.Errorf("the connection was not closed: %q, %v", content, err)
			}
		})
	}
}

func TestExpectContinueIsAnswered(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	conn := r.DialRaw()
	if _, err := fmt.Fprintf(conn, "%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", gatewaytest.PostHead, len(gatewaytest.PlainHi)); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(conn)
	if line, err := replies.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := replies.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, gatewaytest.PlainHi); err != nil {
		t.Fatal(err)
	}
	gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
}

func TestMethods(t *testing.T) {
	r, b := gatewaytest.StartOne(t)
	for _, test := range []struct{ method, path, allow string }{
		{http.MethodGet, "/v1/chat/completions", "POST, OPTIONS"},
		{http.MethodPut, "/v1/chat/completions", "POST, OPTIONS"},
		{http.MethodPatch, "/chat/completions", "POST, OPTIONS"},
		{http.MethodTrace, "/v1/chat/completions", "POST, OPTIONS"},
		{"BREW", "/v1/chat/completions", "POST, OPTIONS"},
		{http.MethodPost, "/v1/models", "GET, HEAD, OPTIONS"},
		{http.MethodDelete, "/v1/models/m", "GET, HEAD, OPTIONS"},
	} {
		answer := r.Do(test.method, test.path, "")
		answer.FailsWith(t, 405, gatewaytest.InvalidRequest, "method_not_allowed", "")
		if got := answer.Header.Get("Allow"); got != test.allow {
			t.Errorf("%s %s: Allow %q, want %q", test.method, test.path, got, test.allow)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/models/m", "/actuator/health", "/actuator/health/readiness"} {
		if answer := r.Do(http.MethodHead, path, ""); answer.Status != 200 || answer.Body != "" {
			t.Errorf("HEAD %s: %d %q", path, answer.Status, answer.Body)
		}
	}
	if answer := r.Do(http.MethodHead, "/v1/chat/completions", ""); answer.Status != 405 || answer.Header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("HEAD of chat: %d, Allow %q", answer.Status, answer.Header.Get("Allow"))
	}
	if answer := r.Do(http.MethodOptions, "/v1/chat/completions", ""); answer.Status != 204 || answer.Header.Get("Allow") != "POST, OPTIONS" {
		t.Errorf("OPTIONS: %d, Allow %q", answer.Status, answer.Header.Get("Allow"))
	}
	if b.Stats().Arrived != 0 {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestUnknownPaths(t *testing.T) {
	r, _ := gatewaytest.StartOne(t)
	for _, path := range []string{
		"/v1", "/v1/", "/index.html", "/v1/threads", "/v1/chat", "/v1/chat/completions/x", "/V1/models", "/v2/chat/completions",
		"/v1/../v1/models", "/v1/%2e%2e/v1/models", "/v1/models/..", "/v1/models/%2e", "/v1/models/../", "/v1/./models", "/%2e%2e/%2e%2e/etc/passwd", "/actuators", "/v1/" + strings.Repeat("x", 5000),
	} {
		conn := r.DialRaw() // a client would clean the path
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		fault := gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodGet).FailsWith(t, 404, "not_found_error", "unknown_endpoint", "")
		if !strings.Contains(fault.Message, "/v1/chat/completions") || len(fault.Message) > 500 {
			t.Errorf("%s: the message helps nobody: %s", path, fault.Message)
		}
	}
}

func TestSuperfluousSlashesDoNotRedirect(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	paths := []string{"//v1//chat/completions/", "/v1/chat/completions/", "/v1///chat//completions", "//chat/completions//"}
	for _, path := range paths {
		conn := r.DialRaw()
		request := strings.Replace(gatewaytest.RawPost(gatewaytest.PlainHi), "/v1/chat/completions", path, 1)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if answer := gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodPost); answer.Status != 200 {
			t.Errorf("%s: %d %v %s", path, answer.Status, answer.Header, answer.Body)
		}
	}
	if b.Stats().Arrived != len(paths) {
		t.Errorf("the backend got %d requests", b.Stats().Arrived)
	}
}

func TestCORS(t *testing.T) {
	r, b := gatewaytest.StartOne(t)
	t.Run("preflight", func(t *testing.T) {
		answer := r.Do(http.MethodOptions, "/v1/chat/completions", "", "Origin", "https://page.example",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,Content-Type, X-Stainless-Lang,x-stainless-lang, bad name,x-custom")
		if answer.Status != 204 || answer.Body != "" {
			t.Errorf("%d %q", answer.Status, answer.Body)
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":      "*",
			"Access-Control-Allow-Methods":     "GET, POST, PUT, DELETE, OPTIONS",
			"Access-Control-Allow-Headers":     "Content-Type, Authorization, x-stainless-lang, x-custom",
			"Access-Control-Max-Age":           "600",
			"Access-Control-Allow-Credentials": "",
			"Vary":                             "Access-Control-Request-Headers",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if b.Stats().Arrived != 0 {
			t.Error("the backend got the preflight")
		}
	})
	t.Run("endless headers are cut", func(t *testing.T) {
		var asked strings.Builder
		for n := range 500 {
			fmt.Fprintf(&asked, "x-%d,", n)
		}
		got := r.Do(http.MethodOptions, "/v1/models", "", "Access-Control-Request-Headers", asked.String()).Header.Get("Access-Control-Allow-Headers")
		if names := strings.Count(got, ",") + 1; names != 40 {
			t.Errorf("%d names are allowed", names)
		}
	})
	b.Script(simulator.Step{}, simulator.Step{}, simulator.Step{Status: 429})
	for name, answer := range map[string]gatewaytest.Reply{
		"plain": r.Chat(gatewaytest.PlainHi), "stream": r.Chat(gatewaytest.StreamHi), "error of a backend": r.Chat(gatewaytest.PlainHi), "error of ours": r.Chat("{}"),
		"unknown path": r.Do(http.MethodGet, "/v1/nowhere", ""), "models": r.Do(http.MethodGet, "/v1/models", ""),
	} {
		t.Run(name, func(t *testing.T) {
			if answer.Header.Get("Access-Control-Allow-Origin") != "*" || answer.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("header %v", answer.Header)
			}
			exposed := ", " + answer.Header.Get("Access-Control-Expose-Headers") + ","
			for _, name := range []string{
				"x-request-id", "retry-after", "retry-after-ms", "x-should-retry", "x-router-instance", "x-router-attempts",
				"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests",
			} {
				if !strings.Contains(exposed, " "+name+",") {
					t.Errorf("pages cannot read %s: %s", name, exposed)
				}
			}
		})
	}
}

func TestModels(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	names := []string{"org/model:7b", "qwen2:7b", "plain", "with space", "日本語", "a/b/c", "100%", "/srv/models/q4.gguf", "./models/q8.gguf", "../q2.gguf"}
	var instances []string
	for _, name := range names {
		instances = append(instances, gatewaytest.Instance(name, b.URL()))
	}
	instances = append(instances, gatewaytest.Instance("plain", b.URL()+"/second"), gatewaytest.Instance("off", b.URL(), "enabled: false"))
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(instances...)+"")
	begun := time.Now().Unix()
	for _, path := range []string{"/v1/models", "/models", "/v1/models/", "/v1/models?x=y"} {
		var list struct {
			Object string `json:"object"`
			Data   []struct {
				ID      string `json:"id"`
				Object  string `json:"object"`
				Created int64  `json:"created"`
				OwnedBy string `json:"owned_by"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(r.Do(http.MethodGet, path, "").Succeeds(t).Body), &list); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, model := range list.Data {
			seen[model.ID]++
			if model.Object != "model" || model.OwnedBy == "" || model.Created < begun-60 || model.Created > begun+60 {
				t.Errorf("entry %+v", model)
			}
		}
		if list.Object != "list" || len(list.Data) != len(names)+1 {
			t.Errorf("%s: %+v", path, list)
		}
		for _, name := range names {
			if seen[name] != 1 {
				t.Errorf("%s is listed %d times", name, seen[name])
			}
		}
	}
	for path, want := range map[string]string{
		"/v1/models/plain": "plain", "/models/plain": "plain", "/v1/models/qwen2:7b": "qwen2:7b", "/v1/models/qwen2%3A7b": "qwen2:7b",
		"/v1/models/org/model:7b": "org/model:7b", "/v1/models/org%2Fmodel:7b": "org/model:7b", "/v1/models/org%2fmodel%3A7b": "org/model:7b",
		"/v1/models/a/b/c": "a/b/c", "/v1/models/a%2Fb/c": "a/b/c", "/v1/models/with%20space": "with space", "/v1/models/100%25": "100%",
		"/v1/models/%E6%97%A5%E6%9C%AC%E8%AA%9E": "日本語",
		"/v1/models//srv/models/q4.gguf":         "/srv/models/q4.gguf", "/models//srv/models/q4.gguf": "/srv/models/q4.gguf", "//v1///models//srv/models/q4.gguf": "/srv/models/q4.gguf",
		"/v1/models/%2Fsrv%2Fmodels%2Fq4.gguf": "/srv/models/q4.gguf", "/v1/models/%2fsrv/models/q4.gguf": "/srv/models/q4.gguf", "/v1/models//srv/models/q4.gguf/": "/srv/models/q4.gguf",
		"/v1/models/.%2Fmodels%2Fq8.gguf": "./models/q8.gguf", "/v1/models/./models/q8.gguf": "./models/q8.gguf", "/v1/models/..%2Fq2.gguf": "../q2.gguf",
		// Slashes too many are harmless where no model has them in its name.
		"/v1/models//plain": "plain", "/v1//models/plain": "plain", "/v1/models/plain/": "plain", "/v1/models/a//b/c": "a/b/c",
	} {
		for begins, path := range map[string]string{
			`{"id":"` + want + `","object":"model",`: path,
			`{"name":"models/` + want + `",`:         strings.Replace(path, "v1/", "v1beta/", 1),
		} {
			if strings.HasPrefix(begins, `{"name"`) && !strings.Contains(path, "v1beta/") {
				continue // Google's API has no such alias
			}
			conn := r.DialRaw()
			if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
				t.Fatal(err)
			}
			answer := gatewaytest.ReadRaw(t, bufio.NewReader(conn), http.MethodGet)
			if answer.Status != 200 || !strings.HasPrefix(answer.Body, begins) {
				t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
			}
		}
	}
	for _, path := range []string{"/v1/models/nothing", "/v1/models/org", "/v1/models/PLAIN", "/v1/models/srv/models/q4.gguf", "/v1/models//nothing"} {
		r.Do(http.MethodGet, path, "").FailsWith(t, 404, "not_found_error", "model_not_found", "model")
	}
	if body := gatewaytest.Start(t, "").Do(http.MethodGet, "/v1/models", "").Succeeds(t).Body; body != `{"object":"list","data":[]}` {
		t.Errorf("a gateway without instances lists %s", body)
	}
}

// Clients of the last century know no chunks: their stream ends with the connection.
func TestHTTP10(t *testing.T) {
	r, _ := gatewaytest.StartOne(t, simulator.Step{Text: "one two"}, simulator.Step{Text: "one two"})
	for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
		conn := r.DialRaw()
		if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(content), "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.0 200 OK\r\n") || strings.Contains(head, "chunked") {
			t.Errorf("head %s", head)
		}
		if body == gatewaytest.StreamHi {
			if events := gatewaytest.EventsOf(t, rest); gatewaytest.TextOf(t, events) != "one two" || events[len(events)-1] != "[DONE]" {
				t.Errorf("events %q", events)
			}
		} else if !strings.Contains(rest, `"content":"one two"`) {
			t.Errorf("body %s", rest)
		}
	}
}

// A request that comes while the one before it is still answered is seen whole,
// too: refused where it is ambiguous, and only there.
func TestChunkedRequestDuringAnAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		head   string
		status int
	}{
		"good":      {"Transfer-Encoding: chunked\r\n\r\n", http.StatusOK},
		"ambiguous": {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.StartHeldBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", g.URL)))
			conn := r.DialRaw()
			for _, request := range []string{gatewaytest.RawPost(gatewaytest.StreamHi), gatewaytest.PostHead + test.head + chunked(gatewaytest.StreamHi)} {
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				if request == gatewaytest.RawPost(gatewaytest.StreamHi) {
					<-g.Entered
				}
			}
			close(g.Open)
			replies := bufio.NewReader(conn)
			gatewaytest.ReadRaw(t, replies, http.MethodPost).Succeeds(t)
			if answer := gatewaytest.ReadRaw(t, replies, http.MethodPost); answer.Status != test.status {
				t.Errorf("status %d, want %d: %s", answer.Status, test.status, answer.Body)
			}
		})
	}
}
