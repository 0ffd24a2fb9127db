package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const (
	// pause is the time between two requests, on average.
	pause = 400 * time.Millisecond
	// maxAtOnce is how many requests run at a time.
	maxAtOnce = 8
	// maxRequestTime bounds one request.
	maxRequestTime = 30 * time.Second
	// maxAnswer is how much of an answer is read by the demo itself.
	maxAnswer = 64 << 10
	// batchLines is how many requests the batch of the demo has.
	batchLines = 60
)

// kindOfRequest is a request of the traffic and how often it is sent.
type kindOfRequest struct {
	weight     int
	path, body string
}

func chatBody(model, more string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"Say something about gateways."}]` +
		more + `}`
}

// mixture is the traffic: mostly chat, and only models whose callers get their answers. All is
// well until somebody breaks something.
func mixture() []kindOfRequest {
	const chat, stream = "/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":true}`
	return []kindOfRequest{
		{46, chat, chatBody(simulator.DemoChat, stream)},
		{20, chat, chatBody(simulator.DemoChat, "")},
		{8, chat, chatBody(simulator.DemoOllama, stream)},
		{8, chat, chatBody(simulator.DemoClaude, stream)},
		{6, chat, chatBody(simulator.DemoGemini, stream)},
		{9, chat, chatBody(simulator.DemoRelay, stream)},
		{4, chat, chatBody(simulator.DemoDay, stream)},
		{2, chat, chatBody(simulator.DemoNight, stream)},
		{7, "/v1/embeddings", `{"model":"` + simulator.DemoEmbedding + `","input":"patch cables"}`},
		{3, "/v1/rerank",
			`{"model":"` + simulator.DemoRerank + `","query":"cables","documents":["red cables","green apples"]}`},
		{1, "/v1/audio/speech", `{"model":"` + simulator.DemoSpeech + `","input":"hello","voice":"alloy"}`},
		{1, "/v1/images/generations", `{"model":"` + simulator.DemoImage + `","prompt":"a patch bay"}`},
	}
}

// Run sends requests to a gateway until ctx ends, while the traffic is switched
// on, and returns when the last of them has ended.
func (d *Demo) Run(ctx context.Context, address string) {
	client := outgoing.New(outgoing.Options{Own: true, Idle: maxAtOnce, Timeout: maxRequestTime})
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, maxAtOnce)
	kinds := mixture()
	weights := func(kind kindOfRequest) int { return kind.weight }
	hasBatch := false
	for waiting.Pause(ctx, pause/2+rand.N(pause)) == nil { //nolint:gosec // nobody gains by guessing it
		if !d.traffic.Load() {
			continue
		}
		if !hasBatch {
			hasBatch = true
			running.Go(func() { d.startBatch(ctx, client, address) })
		}
		select {
		case places <- struct{}{}:
			running.Go(func() {
				defer func() { <-places }()
				d.send(ctx, client, address, pick(kinds, weights))
			})
		default: // the gateway is slow; more requests would not make it faster
		}
	}
}

// pick returns one of some things by chance, the heavier the more often.
func pick[T any](from []T, weight func(T) int) T {
	total := 0
	for _, one := range from {
		total += weight(one)
	}
	at := rand.IntN(total) //nolint:gosec // nobody gains by guessing it
	n := 0
	for ; at >= weight(from[n]); n++ {
		at -= weight(from[n])
	}
	return from[n]
}

// send sends one request of somebody. Whether it goes well is for the pages to show.
func (d *Demo) send(ctx context.Context, client *outgoing.Client, address string, kind kindOfRequest) {
	who := pick(callers(), func(one caller) int { return one.weight })
	body := strings.TrimSuffix(kind.body, "}") + `,"user":"` + who.user + `"}`
	d.post(ctx, client, address+kind.path, "application/json", body, who.key)
}

// startBatch has the gateway work through a batch. A gateway without batches refuses it.
func (d *Demo) startBatch(ctx context.Context, client *outgoing.Client, address string) {
	var form bytes.Buffer
	fields := multipart.NewWriter(&form)
	_ = fields.WriteField("purpose", "batch") // a buffer takes everything
	if file, err := fields.CreateFormFile("file", "nightly.jsonl"); err == nil {
		for line := range batchLines {
			_, _ = fmt.Fprintf(file,
				`{"custom_id":"line-%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n",
				line+1, chatBody(simulator.DemoNight, ""))
		}
	}
	_ = fields.Close()
	var file struct {
		ID string `json:"id"`
	}
	answer := d.post(ctx, client, address+"/v1/files", fields.FormDataContentType(), form.String(), nightly)
	if json.Unmarshal(answer, &file) != nil || file.ID == "" {
		return
	}
	d.post(ctx, client, address+"/v1/batches", "application/json",
		`{"input_file_id":"`+file.ID+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, nightly)
}

// post sends a request, with a key where the gateway has the keys of the demo, and returns the
// beginning of the answer.
func (d *Demo) post(ctx context.Context, client *outgoing.Client, url, media, body, key string) []byte {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil
	}
	request.Header.Set("Content-Type", media)
	request.Header.Set("User-Agent", "patchbay-demo")
	if d.hasKeys {
		request.Header.Set("Authorization", "Bearer "+KeyOf(key))
	}
	response, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	_, _ = io.Copy(io.Discard, response.Body)
	return answer
}
