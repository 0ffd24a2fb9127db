//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// llama is llama.cpp's server in a process of its own, which is started again at its address
// after it was killed.
type llama struct {
	binary, model, address string
	process                *child
}

// startLlamas starts servers of llama.cpp, or skips the test: PATCHBAY_LLAMA_SERVER is the path
// of the server, which is looked for in PATH otherwise, and PATCHBAY_LLAMA_MODEL that of a model,
// which should be tiny.
func startLlamas(t *testing.T, count int) []*llama {
	t.Helper()
	binary, model := os.Getenv("PATCHBAY_LLAMA_SERVER"), os.Getenv("PATCHBAY_LLAMA_MODEL")
	if binary == "" {
		binary, _ = exec.LookPath("llama-server")
	}
	if binary == "" || model == "" {
		t.Skip("there is no llama-server with a model (PATCHBAY_LLAMA_SERVER, PATCHBAY_LLAMA_MODEL)")
	}
	var all []*llama
	for range count {
		free, err := new(net.ListenConfig).Listen(gatewaytest.Deadline(t), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := &llama{binary: binary, model: model, address: free.Addr().String()}
		_ = free.Close()
		l.start(t)
		all = append(all, l)
	}
	return all
}

// start starts the server and waits until it has its model.
func (l *llama) start(t *testing.T) {
	t.Helper()
	host, port, _ := net.SplitHostPort(l.address)
	l.process = startProgram(t, l.binary, nil, "--model", l.model, "--alias", "m", "--host", host, "--port", port,
		"--ctx-size", "4096", "--parallel", "1", "--threads", "1", "--threads-batch", "1", "--cache-ram", "0", "--jinja", "--log-disable")
	gatewaytest.Eventually(t, "llama.cpp has its model", func() bool {
		reply, err := l.send(gatewaytest.Deadline(t), http.MethodGet, "/health", "")
		if err != nil {
			return false
		}
		_ = reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	})
}

func (l *llama) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+l.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
}

// killAsk is a request at one of two doors.
type killAsk struct {
	path  string
	words string // what is asked
	more  string // members of the request
}

// body returns the request, with a beginning of the answer if there is one.
func (a killAsk) body(begun string, stream bool) string {
	options := ""
	if stream {
		options = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	if a.path == "/v1/completions" {
		return fmt.Sprintf(`{"model":"m"%s%s,"prompt":%s}`, a.more, options, quoted(a.words+begun))
	}
	messages := fmt.Sprintf(`{"role":"user","content":%s}`, quoted(a.words))
	if begun != "" {
		messages += fmt.Sprintf(`,{"role":"assistant","content":%s}`, quoted(begun))
	}
	return fmt.Sprintf(`{"model":"m"%s%s,"messages":[%s]}`, a.more, options, messages)
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// killChunk has the members that matter of a chunk and of a whole answer.
type killChunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

func (c *killChunk) text() string {
	if len(c.Choices) == 0 {
		return ""
	}
	return c.Choices[0].Text + c.Choices[0].Delta.Content + c.Choices[0].Message.Content
}

// whole asks a server of llama.cpp itself for the answer, or for the rest of one.
func (a killAsk) whole(t *testing.T, at *llama, begun string) (killChunk, string) {
	t.Helper()
	response, err := at.send(gatewaytest.Deadline(t), http.MethodPost, a.path, a.body(begun, false))
	if err != nil {
		t.Fatal(err)
	}
	reply := gatewaytest.ReadReply(response)
	var answer killChunk
	if err := json.Unmarshal([]byte(reply.Body), &answer); err != nil || reply.Status != http.StatusOK {
		t.Fatalf("%d %v %s", reply.Status, err, reply.Body)
	}
	return answer, answer.text()
}

// killedStream is what a client has of a stream whose backend was killed.
type killedStream struct {
	before, after string // the texts before and after the comment that says that it goes on
	comments, ids []string
	finish        string
	last          killChunk // with the usage
	isComplete    bool
}

// stream asks the gateway, and kills the server that answers after so many events.
func (a killAsk) stream(t *testing.T, gateway *child, answers *llama, after int) (got killedStream) {
	t.Helper()
	response, err := gateway.send(gatewaytest.Deadline(t), http.MethodPost, a.path, a.body("", true))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(response.Body)
		t.Fatalf("no stream: %d %s", response.StatusCode, content)
	}
	events := &gatewaytest.EventReader{From: bufio.NewReader(response.Body)}
	for n := 0; ; n++ {
		if n == after {
			answers.process.kill()
		}
		event, err := events.Next()
		switch {
		case err != nil:
			return got
		case event == "[DONE]":
			got.isComplete = true
			continue
		case strings.HasPrefix(event, ":"):
			got.comments = append(got.comments, event)
			continue
		}
		var chunk killChunk
		if err := json.Unmarshal([]byte(event), &chunk); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		if len(got.ids) == 0 || got.ids[len(got.ids)-1] != chunk.ID {
			got.ids = append(got.ids, chunk.ID)
		}
		if len(got.comments) == 0 {
			got.before += chunk.text()
		} else {
			got.after += chunk.text()
		}
		if len(chunk.Choices) > 0 && chunk.Choices[0].Finish != "" {
			got.finish = chunk.Choices[0].Finish
		}
		if chunk.Usage.Completion > 0 {
			got.last = chunk
		}
	}
}

// without returns a text without the beginning that it has in common with white space that was
// sent before.
func without(text, blank string) string {
	for blank != "" && text != "" {
		a, size := utf8.DecodeRuneInString(blank)
		if b, _ := utf8.DecodeRuneInString(text); a != b {
			break
		}
		blank, text = blank[size:], text[size:]
	}
	return text
}

// TestStreamsGoOnWhenLlamaCppIsKilled kills one of two servers of llama.cpp in the middle of a
// stream, again and again: the client gets what the first one had sent and what the second one
// says that follows, no byte less and none twice. How often is what PATCHBAY_KILL_ROUNDS says.
func TestStreamsGoOnWhenLlamaCppIsKilled(t *testing.T) {
	servers := startLlamas(t, 2)
	serve := func() *child {
		return serving(t, "--data-dir", t.TempDir(), "--set", "log.access=false",
			"--set", "services.chat={streams: {resume: continue}, circuit-breaker: {enabled: false}, health-check: {enabled: false}, adapter: llamacpp, "+
				"instances: [{name: m, base-url: 'http://"+servers[0].address+"'}, {name: m, base-url: 'http://"+servers[1].address+"', tier: 1}]}")
	}
	gateway := serve()
	const limit = 700
	random := rand.New(rand.NewPCG(28, 2))
	kills, late, identical, sameUsage := 0, 0, 0, 0
	for tries := 0; kills < killRounds(6); tries++ {
		if tries > 3*killRounds(6)+20 {
			t.Fatalf("%d of %d streams had ended before their server was killed", late, tries)
		}
		if tries%25 == 24 { // a process of a test does not live for long
			gateway.kill()
			gateway = serve()
			servers[1].process.kill()
			servers[1].start(t)
		}
		ask := killAsk{"/v1/chat/completions", fmt.Sprintf("Tell me about the number %d.", random.IntN(1000)), fmt.Sprintf(`,"temperature":0,"frequency_penalty":0.7,"repeat_last_n":100,"cache_prompt":false,"max_tokens":%d`, limit)}
		if tries%4 == 3 {
			ask.path, ask.words = "/v1/completions", "Once upon a time in the year "+fmt.Sprint(1000+random.IntN(1000))
		}
		plain, uncut := ask.whole(t, servers[0], "")
		got := ask.stream(t, gateway, servers[0], 1+random.IntN(plain.Usage.Completion*2/3+1))
		servers[0].process.kill()
		servers[0].start(t)
		if len(got.comments) == 0 {
			late++
			if !got.isComplete || got.before != uncut {
				t.Errorf("%+v\nwant %q", got, uncut)
			}
			continue
		}
		kills++
		text := got.before + got.after
		given := got.before
		if ask.path != "/v1/completions" { // where white space at the end is part of the prompt
			given = strings.TrimRightFunc(given, unicode.IsSpace)
		}
		_, rest := ask.whole(t, servers[1], given)
		want := got.before + without(rest, got.before[len(given):])
		if !got.isComplete || len(got.ids) != 1 || len(got.comments) != 1 || got.finish == "" || !utf8.ValidString(text) {
			t.Errorf("kill %d: %+v", kills, got)
		}
		if !strings.HasPrefix(uncut, got.before) {
			t.Errorf("kill %d: before the kill came\n%q\nof\n%q", kills, got.before, uncut)
		}
		if !strings.HasPrefix(want, text) || got.finish == "stop" && want != text {
			t.Errorf("kill %d: it went on with\n%q\nwant\n%q", kills, got.after, want[len(got.before):])
		}
		if text == uncut {
			identical++
		}
		if got.last.Usage == plain.Usage {
			sameUsage++
		} else if text == uncut {
			t.Logf("kill %d: usage %+v, uninterrupted %+v", kills, got.last.Usage, plain.Usage)
		}
	}
	t.Logf("%d of %d streams went on, %d with the text of an uninterrupted one and %d with its usage; %d more had ended before the kill", kills, kills, identical, sameUsage, late)
}
