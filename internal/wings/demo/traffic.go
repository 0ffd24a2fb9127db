package demo

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const (
	// pause is the time between two requests, on average.
	pause = 400 * time.Millisecond
	// maxAtOnce is how many requests run at a time.
	maxAtOnce = 8
	// maxRequestTime bounds one request.
	maxRequestTime = 30 * time.Second
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

// mixture is the traffic: mostly chat, and only models that work. All is well until
// somebody breaks something.
func mixture() []kindOfRequest {
	const chat, stream = "/v1/chat/completions", `,"stream":true,"stream_options":{"include_usage":true}`
	return []kindOfRequest{
		{46, chat, chatBody(simulator.DemoChat, stream)},
		{20, chat, chatBody(simulator.DemoChat, "")},
		{8, chat, chatBody(simulator.DemoOllama, stream)},
		{8, chat, chatBody(simulator.DemoClaude, stream)},
		{6, chat, chatBody(simulator.DemoGemini, stream)},
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
	client := &http.Client{Timeout: maxRequestTime, Transport: &http.Transport{MaxIdleConnsPerHost: maxAtOnce}}
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, maxAtOnce)
	kinds := mixture()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(pause/2 + rand.N(pause)) //nolint:gosec // nobody gains by guessing it
		if !d.traffic.Load() {
			continue
		}
		select {
		case places <- struct{}{}:
			running.Go(func() {
				defer func() { <-places }()
				send(ctx, client, address, pick(kinds))
			})
		default: // the gateway is slow; more requests would not make it faster
		}
	}
}

func pick(kinds []kindOfRequest) kindOfRequest {
	total := 0
	for _, kind := range kinds {
		total += kind.weight
	}
	at := rand.IntN(total) //nolint:gosec // nobody gains by guessing it
	n := 0
	for ; at >= kinds[n].weight; n++ {
		at -= kinds[n].weight
	}
	return kinds[n]
}

// send sends one request. Whether it goes well is for the pages to show.
func send(ctx context.Context, client *http.Client, address string, kind kindOfRequest) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+kind.path, strings.NewReader(kind.body))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "patchbay-demo")
	response, err := client.Do(request)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}
