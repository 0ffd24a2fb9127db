package pairs_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// result is how a request ended.
type result struct {
	status int
	code   string // of its error
	// isWhole says that the client got all of the answer.
	isWhole bool
	header  http.Header
	text    string // what the client got
	err     error  // the client left
}

// untold is the status of an error that has a code alone, as those of the Realtime API.
const untold = -1

// door is a way in which clients ask for models. Each request asks for the same and can be
// repeated, so that its answer may be shared.
type door struct {
	name    string
	service string
	// open begins a conversation about a model, and returns what asks in it. Over HTTP each
	// request is a conversation of its own.
	open func(t *testing.T, g *gatewaytest.Gateway, model string) (ask func(context.Context) result)
	// wing is the one that brings the door, and sections its settings.
	wing, sections string
}

const key = "the-key"

// bearer returns the headers of a request: those of the cell, else the ones with the key.
func bearer(g *gatewaytest.Gateway) []string {
	if g.Credential != nil {
		return slices.Clip(g.Credential)
	}
	return []string{"Authorization", "Bearer " + key}
}

// doors returns all doors. Those of other APIs stream where their clients mostly do.
func doors() []door {
	return []door{
		{"chat", "chat", posting("/v1/chat/completions", `{"model":"MODEL","temperature":0,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`), "", ""},
		{"stream", "chat", posting("/v1/chat/completions", `{"model":"MODEL","stream":true,"temperature":0,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`), "", ""},
		{"messages", "chat", posting("/v1/messages", `{"model":"MODEL","stream":true,"temperature":0,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`), "", ""},
		{"responses", "chat", posting("/v1/responses", `{"model":"MODEL","stream":true,"store":false,"temperature":0,"max_output_tokens":50,"input":"hi"}`), "", ""},
		{"responses over WebSocket", "chat", talking("/v1/responses", `{"type":"response.create","model":"MODEL","store":false,"temperature":0,"max_output_tokens":50,"input":"hi"}`), "realtime", ""},
		{"realtime", "chat", talking("/v1/realtime?model=MODEL", `{"type":"response.create"}`), "realtime", ""},
		{"completions", "chat", posting("/v1/completions", `{"model":"MODEL","temperature":0,"max_tokens":50,"prompt":"hi"}`), "", ""},
		{"Ollama", "chat", posting("/ollama/api/chat", `{"model":"MODEL","options":{"temperature":0,"num_predict":50},"messages":[{"role":"user","content":"hi"}]}`), "", ""},
		{"Gemini", "chat", posting("/v1beta/models/MODEL:streamGenerateContent?alt=sse", `{"generationConfig":{"temperature":0,"maxOutputTokens":50},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`), "", ""},
		{"embeddings", "embedding", posting("/v1/embeddings", `{"model":"MODEL","input":[`+strings.TrimSuffix(strings.Repeat(`"input ",`, manyInputs), ",")+`]}`), "", ""},
		{"transcription", "stt", transcribing, "", ""},
		{"batch line", "chat", batching, "batches", "batches: {enabled: true}\n"},
	}
}

// manyInputs is how many texts are embedded at a time, enough for two instances.
const manyInputs = 4

// memberMark separates a model from the name of a member that the request also has.
const memberMark = ";"

// withMember returns the name of a model, and a body with the member that is asked for with it.
func withMember(model, body string) (string, string) {
	model, member, isNamed := strings.Cut(model, memberMark)
	if isNamed {
		body = strings.Replace(body, "{", `{"`+member+`":"x",`, 1)
	}
	return model, body
}

// posting returns a door to which requests are posted.
func posting(path, body string) func(*testing.T, *gatewaytest.Gateway, string) func(context.Context) result {
	return func(t *testing.T, g *gatewaytest.Gateway, model string) func(context.Context) result {
		t.Helper()
		model, body := withMember(model, body)
		put := strings.NewReplacer("MODEL", model)
		return func(ctx context.Context) result {
			return post(g, g.Request(ctx, http.MethodPost, put.Replace(path), put.Replace(body), bearer(g)...))
		}
	}
}

func transcribing(t *testing.T, g *gatewaytest.Gateway, model string) func(context.Context) result {
	t.Helper()
	return func(ctx context.Context) result {
		model, member, _ := strings.Cut(model, memberMark)
		body, contentType := gatewaytest.FormBody(gatewaytest.Recording(), gatewaytest.Field("model", model), gatewaytest.Field(cmp.Or(member, "language"), "en"))(t)
		return post(g, g.Request(ctx, http.MethodPost, "/v1/audio/transcriptions", body, append(bearer(g), "Content-Type", contentType)...))
	}
}

// post sends a request and reads the reply.
func post(g *gatewaytest.Gateway, request *http.Request) result {
	response, err := g.Client.Do(request)
	if err != nil {
		return result{err: err}
	}
	reply := gatewaytest.ReadReply(response)
	isError := strings.Contains(reply.Body, `"error":{`) || strings.Contains(reply.Body, `"error":"`)
	return result{
		status: reply.Status, code: codeIn(reply.Body), isWhole: reply.Status == http.StatusOK && reply.Err == nil && !isError,
		header: reply.Header, text: reply.Body, err: reply.Err,
	}
}

// codeIn returns the code of the error in a reply, whichever API has written it.
func codeIn(text string) string {
	for _, member := range []string{`"code":"`, `"reason":"`} {
		if _, rest, found := strings.Cut(text, member); found {
			code, _, _ := strings.Cut(rest, `"`)
			return code
		}
	}
	return ""
}

// talking returns a door that is a WebSocket, on which a message is a request.
func talking(path, message string) func(*testing.T, *gatewaytest.Gateway, string) func(context.Context) result {
	return func(t *testing.T, g *gatewaytest.Gateway, model string) func(context.Context) result {
		t.Helper()
		model, message := withMember(model, message)
		put := strings.NewReplacer("MODEL", model)
		var socket *gatewaytest.Socket
		return func(ctx context.Context) result {
			if socket == nil {
				opened, reply := g.Dial(put.Replace(path), bearer(g)...)
				if opened == nil {
					return result{status: reply.Status, code: codeIn(reply.Body), header: reply.Header, text: reply.Body}
				}
				socket = opened
			}
			defer context.AfterFunc(ctx, func() { _ = socket.CloseNow() })()
			socket.Send(put.Replace(message))
			return hear(socket)
		}
	}
}

// hear reads messages up to the end of a response.
func hear(socket *gatewaytest.Socket) result {
	heard := ""
	for {
		text, err := socket.Next()
		if err != nil {
			return result{status: http.StatusOK, text: heard, err: err}
		}
		heard += text
		var event struct {
			Type   string `json:"type"`
			Status int    `json:"status"`
		}
		_ = json.Unmarshal([]byte(text), &event)
		switch event.Type {
		case "response.completed", "response.done":
			return result{status: http.StatusOK, isWhole: !strings.Contains(text, `"failed"`), text: heard}
		case "response.failed", "error":
			return result{status: cmp.Or(event.Status, untold), code: codeIn(text), text: heard}
		}
	}
}

// batching is the door whose requests are the lines of batches, one line each.
func batching(t *testing.T, g *gatewaytest.Gateway, model string) func(context.Context) result {
	t.Helper()
	return func(ctx context.Context) result { return endOfBatch(ctx, t, g, sendBatch(t, g, model, 1)) }
}

// sendBatch begins a batch of equal lines, and returns its id.
func sendBatch(t *testing.T, g *gatewaytest.Gateway, model string, count int) (id string) {
	t.Helper()
	var lines strings.Builder
	for i := range count {
		name, asked := withMember(model, `{"model":MODEL,"temperature":0,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`)
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i+1, strings.Replace(asked, "MODEL", strconv.Quote(name), 1))
	}
	body, contentType := gatewaytest.FormBody(gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "lines.jsonl", "application/jsonl", lines.String()))(t)
	file := idIn(t, g.Do(http.MethodPost, "/v1/files", body, append(bearer(g), "Content-Type", contentType)...).Succeeds(t).Body)
	return idIn(t, g.Do(http.MethodPost, "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file), bearer(g)...).Succeeds(t).Body)
}

func idIn(t *testing.T, body string) string {
	t.Helper()
	id, _ := gatewaytest.DecodeObject(t, body)["id"].(string)
	return id
}

// endOfBatch waits until a batch has ended, which it is told to do when the context ends.
func endOfBatch(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, batch string) result {
	t.Helper()
	var b struct {
		Status string `json:"status"`
		Output string `json:"output_file_id"`
		Errors string `json:"error_file_id"`
	}
	defer context.AfterFunc(ctx, func() {
		if response, err := g.Client.Do(g.Request(context.WithoutCancel(ctx), http.MethodPost, "/v1/batches/"+batch+"/cancel", "", bearer(g)...)); err == nil {
			gatewaytest.ReadReply(response)
		}
	})()
	gatewaytest.Eventually(t, "the batch ends", func() bool {
		response, err := g.Client.Do(g.Request(t.Context(), http.MethodGet, "/v1/batches/"+batch, "", bearer(g)...))
		if err != nil {
			return true // the gateway has stopped
		}
		reply := gatewaytest.ReadReply(response)
		if reply.Status != http.StatusOK {
			return false
		}
		if err := json.Unmarshal([]byte(reply.Body), &b); err != nil {
			t.Fatal(err)
		}
		return b.Status == "completed" || b.Status == "failed" || b.Status == "cancelled"
	})
	if ctx.Err() != nil {
		return result{err: ctx.Err()}
	}
	for _, file := range []string{b.Output, b.Errors} {
		if file == "" {
			continue
		}
		var row struct {
			Response struct {
				Status int `json:"status_code"`
			} `json:"response"`
		}
		text := g.Do(http.MethodGet, "/v1/files/"+file+"/content", "", bearer(g)...).Succeeds(t).Body
		if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &row); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return result{status: row.Response.Status, code: codeIn(text), isWhole: row.Response.Status == http.StatusOK, text: text}
	}
	return result{text: b.Status}
}
