package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// answersShort returns the address of a backend that has a short answer to everything. It
// keeps nothing of a request, so that what is kept in memory is kept by the gateway.
func answersShort(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Padding", strings.Repeat("x", 32<<10))
		switch {
		case strings.HasSuffix(r.URL.Path, "/embeddings"):
			_, _ = io.WriteString(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`)
		case strings.HasSuffix(r.URL.Path, "/rerank"):
			_, _ = io.WriteString(w, `{"results":[{"index":0,"relevance_score":0.5}]}`)
		case strings.HasSuffix(r.URL.Path, "/speech"):
			w.Header().Set("Content-Type", "audio/mpeg; padding="+strings.Repeat("x", 16<<10))
			_, _ = io.WriteString(w, "sound")
		case strings.HasSuffix(r.URL.Path, "/transcriptions"):
			_, _ = io.WriteString(w, `{"text":"hi"}`)
		case strings.HasSuffix(r.URL.Path, "/generations"):
			_, _ = io.WriteString(w, `{"created":1,"data":[{"b64_json":"AAAA"}]}`)
		case bytes.Contains(body, []byte("break")):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"broken `+strings.Repeat("x", 500)+`"}}`)
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// heap returns how many bytes are in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what pools have for the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// What the gateway keeps of a request (its id in the list of calls, its tenant and user in
// the ledger, captured headers and so on) keeps nothing else of it in memory: neither its
// head nor its body. It is not parallel, because other tests have memory, too.
func TestMemoryKeptAfterRequests(t *testing.T) {
	const requests, padding = 120, 60 << 10
	pad := strings.Repeat("x", padding)
	var services []string
	backend := answersShort(t)
	for _, service := range []string{"chat", "embedding", "rerank", "tts", "stt", "imgGen"} {
		services = append(services, gatewaytest.ServiceEntry(service, gatewaytest.Instance("m", backend)))
	}
	yaml := "services: {" + strings.Join(services, ",\n") + "}\nquota: {enabled: true}\nmonitoring: {capture: headers}\nlimits: {max-attempts: 1}\nbatches: {enabled: true}\nlog: {access: false}\n"
	open := gatewaytest.Start(t, yaml)
	secured := gatewaytest.Start(t, yaml+"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("key")+"}], tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("token")+"}]}\n")

	message := `"messages":[{"role":"user","content":"` + pad + `"}]`
	form := func(n int) (body, contentType string) {
		var text bytes.Buffer
		contentType = gatewaytest.WriteForm(t, &text, gatewaytest.Field("model", "m"), gatewaytest.Field("user", fmt.Sprint("form", n)), gatewaytest.Field("prompt", pad), gatewaytest.Recording())
		return text.String(), contentType
	}
	post := func(path, body string) func(int) request {
		return func(n int) request {
			return request{path: strings.ReplaceAll(path, "USER", fmt.Sprint("user", n)), body: strings.ReplaceAll(body, "USER", fmt.Sprint("user", n))}
		}
	}
	for _, test := range []struct {
		name string
		to   *gatewaytest.Gateway
		make func(n int) request
		want int
	}{
		{"chat", open, post("/v1/chat/completions", `{"model":"m","user":"USER",`+message+`}`), 200},
		{"stream", open, post("/v1/chat/completions", `{"model":"m","stream":true,"user":"USER",`+message+`}`), 200},
		{"query", open, post("/v1/chat/completions?x="+pad[:1<<10], `{"model":"m",`+message+`}`), 200},
		{"unknown model", open, post("/v1/chat/completions", `{"model":"USER",`+message+`}`), 503},
		{"backend that fails", open, post("/v1/chat/completions", `{"model":"m","user":"break",`+message+`}`), 500},
		{"completions", open, post("/v1/completions", `{"model":"m","user":"USER","prompt":"`+pad+`"}`), 200},
		{"messages", open, post("/v1/messages", `{"model":"m","max_tokens":5,"metadata":{"user_id":"USER"},`+message+`}`), 200},
		{"responses", open, post("/v1/responses", `{"model":"m","store":false,"user":"USER","input":"`+pad+`"}`), 200},
		{"embeddings", open, post("/v1/embeddings", `{"model":"m","user":"USER","input":"`+pad+`"}`), 200},
		{"rerank", open, post("/v1/rerank", `{"model":"m","query":"q","documents":["`+pad+`"]}`), 200},
		{"speech", open, post("/v1/audio/speech", `{"model":"m","voice":"v","input":"`+pad[:4000]+`"}`), 200},
		{"images", open, post("/v1/images/generations", `{"model":"m","user":"USER","prompt":"`+pad[:4000]+`"}`), 200},
		{"transcriptions", open, func(n int) request {
			body, contentType := form(n)
			return request{path: "/v1/audio/transcriptions", body: body, header: "Content-Type: " + contentType + "; padding=" + pad[:1<<10] + "\r\n"}
		}, 200},
		{"ollama chat", open, post("/ollama/api/chat", `{"model":"m","stream":false,`+message+`}`), 200},
		{"ollama chat, streamed", open, post("/ollama/api/chat", `{"model":"m",`+message+`}`), 200},
		{"ollama embed", open, post("/ollama/api/embed", `{"model":"m","input":"`+pad+`"}`), 200},
		{"ollama show", open, post("/ollama/api/show", `{"model":"USER","padding":"`+pad+`"}`), 404},
		{"gemini", open, post("/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"`+pad+`"}]}]}`), 200},
		{"gemini, unknown model", open, post("/v1beta/models/USER:generateContent", `{"contents":[{"parts":[{"text":"`+pad+`"}]}]}`), 0},
		{"gemini, key in the query", secured, func(n int) request {
			return request{path: fmt.Sprint("/v1beta/models/m:generateContent?key=wrong", n), body: `{"contents":[{"parts":[{"text":"` + pad + `"}]}]}`}
		}, 0},
		{"tokenize", open, post("/tokenize", `{"model":"USER","prompt":"`+pad+`"}`), 0},
		{"count tokens", open, post("/v1/messages/count_tokens", `{"model":"m","max_tokens":5,`+message+`}`), 200},
		{"files", open, func(n int) request {
			var text bytes.Buffer
			contentType := gatewaytest.WriteForm(t, &text, gatewaytest.Field("purpose", fmt.Sprint("none", n)), gatewaytest.Upload("file", fmt.Sprint("name", n), "text/plain", pad))
			return request{path: "/v1/files", body: text.String(), header: "Content-Type: " + contentType + "\r\n"}
		}, 400},
		{"batches", open, post("/v1/batches", `{"input_file_id":"USER","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"padding":"`+pad[:256]+`"}}`), 404},
		{"a WebSocket that is not opened", open, func(n int) request {
			return request{path: fmt.Sprint("/v1/realtime?model=unknown", n), method: "GET", header: "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"}
		}, 503},
		{"not JSON", open, post("/v1/chat/completions", `{"model":"USER"`+pad), 400},
		{"not found", open, post("/v1/nothing", `{}`), 404},
		{"a model", open, func(n int) request { return request{path: fmt.Sprint("/v1/models/", n, pad[:1<<10]), method: "GET"} }, 404},
		{"a response", open, func(n int) request { return request{path: fmt.Sprint("/v1/responses/", n, pad[:1<<10]), method: "GET"} }, 404},
		{"management", open, func(n int) request {
			return request{path: fmt.Sprint("/api/config/instance/type/chat?x=", n, pad[:1<<10]), method: "GET"}
		}, 200},
		{"wrong key", secured, func(n int) request {
			return request{path: "/v1/chat/completions", body: `{"model":"m",` + message + `}`, header: fmt.Sprint("Authorization: Bearer wrong", n, "\r\n")}
		}, 0},
		{"right key", secured, func(n int) request {
			return request{path: "/v1/chat/completions", body: fmt.Sprint(`{"model":"m","user":"u`, n, `",`, message, `}`), header: "Authorization: Bearer key\r\n"}
		}, 200},
		{"wrong token", secured, func(n int) request {
			return request{path: "/api/keys", method: "GET", header: fmt.Sprint("Authorization: Bearer wrong", n, "\r\n")}
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := test.to.DialRaw()
			defer c.Close()
			replies := bufio.NewReader(c)
			send := func(n int) {
				one := test.make(n)
				if one.method == "" {
					one.method = http.MethodPost
				}
				send := func(text string) {
					if _, err := io.WriteString(c, text); err != nil {
						t.Fatal(err)
					}
				}
				send(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: %s-%d\r\nX-Tenant-Id: tenant-%d\r\nX-Padding: %s\r\n%sContent-Length: %d\r\n\r\n",
					one.method, one.path, strings.ReplaceAll(test.name, " ", "-"), n, n, pad[:58<<10], one.header, len(one.body)))
				send(one.body)
				answer := gatewaytest.ReadRaw(t, replies, one.method)
				if test.want != 0 && answer.Status != test.want {
					t.Fatalf("status %d: %.300s", answer.Status, answer.Body)
				}
				if answer.Closes {
					_ = c.Close()
					c = test.to.DialRaw()
					replies = bufio.NewReader(c)
				}
			}
			for n := range 100 { // what is made once, and the histories of as many tenants as have one
				send(n)
			}
			before := heap()
			for n := range requests {
				send(1000 + n)
			}
			grown := heap() - before
			t.Logf("%d bytes for each request", grown/requests)
			if grown > requests*padding/2 { // some memory is there for all requests
				t.Errorf("%d requests took %d bytes", requests, grown)
			}
		})
	}
}

// The servers of HTTP/1.1 and of HTTP/2 keep nothing of the requests that they have
// answered, however large their heads were. It is not parallel, either.
func TestMemoryAllocatedForLargeHeadsIsGivenBack(t *testing.T) {
	const requests, padding = 2_000, 16 << 10
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			config := authority.Client()
			config.ServerName = "gateway.test"
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: serverTLS(certificate, key, "") + "log: {access: false}\n", TLS: config, HTTP2: http2})
			r.Post("/actuator/loggers/ROOT", `{"configuredLevel":"INFO"}`) // the test keeps what is logged
			pad := strings.Repeat("x", padding)
			send := func(n int) {
				ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Timeout) // each: all take minutes on a busy machine
				defer cancel()
				request := r.Request(ctx, http.MethodGet, "/v1/models", "")
				request.Header.Set("X-Padding", fmt.Sprint(n, pad))
				response, err := r.Client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK || (response.ProtoMajor == 2) != http2 {
					t.Fatalf("status %d of %s", response.StatusCode, response.Proto)
				}
			}
			for n := range 100 {
				send(n)
			}
			before := heap()
			for n := range requests {
				send(n)
			}
			if grown := heap() - before; grown > requests*padding/20 {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
		})
	}
}

// request is what a test sends beside the usual headers.
type request struct{ method, path, header, body string }
