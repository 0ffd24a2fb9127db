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

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
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
	if !gatewaytest.HasProc() {
		t.Skip("memory is read from /proc, which this system does not have")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, file, yaml+"limits: {memory: "+limit+"}\n")
	c := startPatiently(t, dir, "serve", "--listen", "127.0.0.1:0", "--config", file, "--data-dir", filepath.Join(dir, "data"))
	c.waitFor(`"msg":"listening"`)
	return c
}

// postLarge sends a body that is made while it is sent; length -1 sends it without
// its length. Whoever is refused learns it before the body is sent.
func postLarge(t *testing.T, url string, body io.Reader, length int64) gatewaytest.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*gatewaytest.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Error(err)
		return gatewaytest.Reply{}
	}
	request.ContentLength = length
	request.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 10 * gatewaytest.Timeout}}
	response, err := client.Do(request)
	if err != nil {
		return gatewaytest.Reply{} // the connection was closed in the middle of the body
	}
	return gatewaytest.ReadReply(response)
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
	t.Parallel()
	const size, limit, clients = 30 << 20, 256 << 20, 30
	for name, known := range map[string]bool{"of known length": true, "as they grow": false} {
		t.Run(name, func(t *testing.T) {
			url, arrived, open := holdingBackend(t, aCompletion)
			c := startBounded(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", url)), "256MiB")
			send := func() gatewaytest.Reply {
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
					switch answer := send(); answer.Status {
					case http.StatusOK:
						served.Add(1)
					case 0:
						cut.Add(1)
					default:
						answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
						refused.Add(1)
					}
				})
			}
			gatewaytest.Eventually(t, "everybody is refused or waits for the backend", func() bool {
				return refused.Load()+cut.Load()+arrived.Load() == clients
			})
			// Pages of the program's file are no memory that the limit is about.
			peak := memoryOf(t, c, "VmHWM") - memoryOf(t, c, "RssFile")
			open()
			all.Wait()
			t.Logf("%d served, %d refused, %d cut off, peak of the anonymous memory %.1f MiB", served.Load(), refused.Load(), cut.Load(), mebibytes(peak))
			most := int64(limit)
			if !known {
				most += limit / 4 // the collector is a moment behind what is given up
			}
			if peak > most {
				t.Errorf("the peak is %.1f MiB", mebibytes(peak))
			}
			if served.Load() < 2 || refused.Load()+cut.Load() == 0 {
				t.Errorf("%d served, %d refused, %d cut off", served.Load(), refused.Load(), cut.Load())
			}
			gatewaytest.Eventually(t, "what they took is free again, and collected", func() bool { return send().Status == http.StatusOK })
		})
	}
}

// A list of small numbers costs what it weighs.
func TestSmallNumbersTakeTheMemoryOfTheirText(t *testing.T) {
	t.Parallel()
	url, _, open := holdingBackend(t, aVector)
	open()
	c := startBounded(t, gatewaytest.ServiceYAML("embedding", gatewaytest.Instance("m", url)), "256MiB")
	before := memoryOf(t, c, "VmRSS")
	body, length := filled(`{"model":"m","input":[`, "1,", "1]}", 30<<20)
	postLarge(t, c.url()+"/v1/embeddings", body, length).Succeeds(t)
	grown := memoryOf(t, c, "VmHWM") - before
	t.Logf("30 MiB of numbers took %.1f MiB", mebibytes(grown))
	if grown > 96<<20 {
		t.Errorf("30 MiB of numbers took %.1f MiB", mebibytes(grown))
	}
}
