package kinds

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TestALargeEventIsNotKept sends pictures in events of 8 MiB: each is passed on,
// and while the stream waits for the next event their memory is free.
func TestALargeEventIsNotKept(t *testing.T) {
	picture := strings.Repeat("iVBORw0K", 1<<20)
	cases := map[string]struct {
		adapter      *dialect.Adapter
		large, small string
	}{
		"openai": {
			openai.Chat,
			`data: {"model":"other","choices":[{"index":0,"delta":{"content":"` + picture + `"},"finish_reason":null}]}` + "\n\n",
			`data: {"model":"other","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n",
		},
		"openai in several lines": {
			openai.Chat,
			`data: {"model":"other","choices":[{"index":0,"delta":{"content":"` + picture + `"},` + "\ndata: " + `"finish_reason":null}]}` + "\n\n",
			`data: {"model":"other","choices":[{"index":0,"delta":{"content":"x"},` + "\ndata: " + `"finish_reason":null}]}` + "\n\n",
		},
		"gemini": {
			gemini.Chat,
			`data: {"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + picture + `"}}]}}]}` + "\n\n",
			`data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}]}` + "\n\n",
		},
		"anthropic": {
			anthropic.Chat,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + picture + `"}}` + "\n\n",
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n",
		},
		"ollama": {
			ollama.Chat,
			`{"message":{"content":"` + picture + `"},"done":false}` + "\n",
			`{"message":{"content":"x"},"done":false}` + "\n",
		},
	}
	tested := map[*dialect.Adapter]bool{}
	for name, c := range cases {
		tested[c.adapter] = true
		t.Run(name, func(t *testing.T) {
			var pieces []io.Reader // as they come over a connection
			for _, event := range []string{c.large, c.small, c.large, c.small, c.small} {
				pieces = append(pieces, strings.NewReader(event))
			}
			body := io.MultiReader(pieces...)
			before := heap()
			events := dialect.Speaker{Adapter: c.adapter}.Events(requestOf(t, schema.Chat, true), body)
			for i, want := range []int{len(picture), 1, len(picture), 1, 1} {
				chunk, err := events.Next()
				if err != nil || len(chunk) < want || want == 1 && len(chunk) > 500 {
					t.Fatalf("event %d: a chunk of %d bytes (%v), want one around %d", i, len(chunk), err, want)
				}
				if held := heap() - before; want == 1 && held > 1<<20 {
					t.Errorf("%d bytes are held after event %d", held, i)
				}
			}
			runtime.KeepAlive(events)
			runtime.KeepAlive(pieces)
		})
	}
	for _, kind := range table {
		if chat, ok := kind.Routes[schema.Chat]; ok && !tested[chat.Adapter] {
			t.Errorf("no case above has the events of %s", kind.Name)
		}
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what was in pools goes with the second one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
