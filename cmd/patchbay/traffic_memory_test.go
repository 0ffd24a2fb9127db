package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// holdingBackend reads requests whole and answers them when it is opened.
func holdingBackend(t *testing.T, answer string) (url string, arrived *atomic.Int64, open func()) {
	t.Helper()
	arrived = new(atomic.Int64)
	opened := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived.Add(1)
		select {
		case <-opened:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	open = sync.OnceFunc(func() { close(opened) })
	t.Cleanup(func() { open(); server.Close() })
	return server.URL, arrived, open
}

const (
	aCompletion = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	aVector     = `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`
)

// startBounded starts the program with a limit on its memory.
func startBounded(t *testing.T, yaml, limit string) *child {
	t.Helper()
	if testing.Short() {
		t.Skip("sends hundreds of MB")
	}
	if !hasProc() {
		t.Skip("memory is read from /proc, which this system does not have")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	mustWrite(t, file, yaml+"limits: {memory: "+limit+"}\n")
	c := startPatiently(t, dir, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", filepath.Join(dir, "data"))
	c.waitFor(`"msg":"listening"`)
	return c
}

// postLarge sends a body that is made while it is sent; length -1 sends it without
// its length. Whoever is refused learns it before the body is sent.
func postLarge(t *testing.T, url string, body io.Reader, length int64) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return reply{}
	}
	request.ContentLength = length
	request.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 10 * within}}
	response, err := client.Do(request)
	if err != nil {
		return reply{} // the connection was closed in the middle of the body
	}
	return drain(response)
}

// filled is a body of a size: text with as many fillings as fit.
func filled(before, filling, after string, size int) (io.Reader, int64) {
	count := size / len(filling)
	readers := []io.Reader{strings.NewReader(before)}
	block := strings.Repeat(filling, 1<<10)
	for ; count >= 1<<10; count -= 1 << 10 {
		readers = append(readers, strings.NewReader(block))
	}
	readers = append(readers, strings.NewReader(strings.Repeat(filling, count)), strings.NewReader(after))
	total := int64(len(before) + len(after) + size/len(filling)*len(filling))
	return io.MultiReader(readers...), total
}

// Thirty bodies of 30 MiB at once stay within a limit of 256 MiB: those that find
// no memory are refused, and what the others took is there again after them.
func TestBodiesStayWithinTheMemoryLimit(t *testing.T) {
	const size, limit, clients = 30 << 20, 256 << 20, 30
	for name, known := range map[string]bool{"of known length": true, "as they grow": false} {
		t.Run(name, func(t *testing.T) {
			url, arrived, open := holdingBackend(t, aCompletion)
			c := startBounded(t, chatYAML(instance("m", url)), "256MiB")
			send := func() reply {
				body, length := filled(`{"model":"m","messages":[{"role":"user","content":"`, "0123456789abcdef", `"}]}`, size)
				if !known {
					length = -1
				}
				return postLarge(t, c.url()+"/v1/chat/completions", body, length)
			}
			var served, refused, cut atomic.Int64
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					switch answer := send(); answer.status {
					case http.StatusOK:
						served.Add(1)
					case 0:
						cut.Add(1)
					default:
						answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
						refused.Add(1)
					}
				})
			}
			eventually(t, "everybody is refused or waits for the backend", func() bool {
				return refused.Load()+cut.Load()+arrived.Load() == clients
			})
			peak := memoryOf(t, c, "VmHWM")
			open()
			all.Wait()
			t.Logf("%d served, %d refused, %d cut off, peak of the resident memory %.1f MiB", served.Load(), refused.Load(), cut.Load(), mebibytes(peak))
			most := int64(limit)
			if !known {
				most += limit / 4 // the collector is a moment behind what is given up
			}
			if peak > most {
				t.Errorf("the peak is %.1f MiB", mebibytes(peak))
			}
			if served.Load() < 2 || refused.Load()+cut.Load() == 0 || known && cut.Load() > 0 {
				t.Errorf("%d served, %d refused, %d cut off", served.Load(), refused.Load(), cut.Load())
			}
			send().succeeds(t)
		})
	}
}

// A list of small numbers costs what it weighs.
func TestSmallNumbersTakeTheMemoryOfTheirText(t *testing.T) {
	url, _, open := holdingBackend(t, aVector)
	open()
	c := startBounded(t, serviceYAML("embedding", instance("m", url)), "256MiB")
	before := memoryOf(t, c, "VmRSS")
	body, length := filled(`{"model":"m","input":[`, "1,", "1]}", 30<<20)
	postLarge(t, c.url()+"/v1/embeddings", body, length).succeeds(t)
	grown := memoryOf(t, c, "VmHWM") - before
	t.Logf("30 MiB of numbers took %.1f MiB", mebibytes(grown))
	if grown > 96<<20 {
		t.Errorf("30 MiB of numbers took %.1f MiB", mebibytes(grown))
	}
}

// What a request took of the budget is given back when its memory is free: a
// stream that has begun holds nothing of it.
func TestBudgetForBodiesIsGivenBack(t *testing.T) {
	held := startGate(t)
	r := startGateway(t, chatYAML(instance("m", held.url)))
	stream := r.later(deadline(t), streamHi)
	<-held.entered
	isFree := func(when string) {
		t.Helper()
		eventually(t, "the budget is free "+when, func() bool { return r.Memory.Taken() == 0 })
	}
	isFree("while a stream runs")
	close(held.open)
	(<-stream).succeeds(t)
	r.chat(`{"model":"m"`).failsWith(t, http.StatusBadRequest, invalidRequest, "invalid_json", "")
	r.chat(`{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`)
	r.post("/v1/audio/transcriptions", "no form")
	isFree("after all of them")
}

// A request that finds nothing left of the budget is refused and may try again.
func TestRequestsWithoutBudgetAreRefused(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, chatYAML(instance("m", b.URL())))
	all := r.Memory.Budget()
	if !r.Memory.Take(all) {
		t.Fatal("the budget is not free")
	}
	answer := r.chat(plainHi)
	answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
	if answer.retryOf(t) != time.Second {
		t.Errorf("headers %v", answer.header)
	}
	r.Memory.Give(all)
	r.chat(plainHi).succeeds(t)
}
