package starter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/discover"
)

// Ports returns the ports of the usual model servers: Ollama, vLLM, llama.cpp, LM Studio,
// Xinference.
func Ports() []int { return []int{11434, 8000, 8080, 8081, 1234, 9997} }

// findTime is how long each port is asked.
const findTime = 3 * time.Second

// FindLocal asks the ports of this machine for lists of models, all at once, and returns
// the backends that have one, in the order of the ports. A gateway is left out.
func FindLocal(ctx context.Context, send discover.Send, ports []int) []Backend {
	found := make([]*Backend, len(ports))
	var asking sync.WaitGroup
	for i, port := range ports {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, findTime)
			defer cancel()
			address := fmt.Sprintf("http://127.0.0.1:%d", port)
			if b, err := Ask(ctx, send, discover.Backend{BaseURL: address}); err == nil {
				found[i] = &b
			}
		})
	}
	asking.Wait()
	var backends []Backend
	for _, b := range found {
		if b != nil && !slices.ContainsFunc(b.Models, func(m discover.Model) bool { return m.OfGateway }) {
			backends = append(backends, *b)
		}
	}
	return backends
}

// Ask asks one backend. The error lists the tries.
func Ask(ctx context.Context, send discover.Send, b discover.Backend) (Backend, error) {
	found, err := discover.Ask(ctx, send, b)
	if err != nil {
		return Backend{}, err
	}
	if found.Adapter == "" {
		return Backend{}, fmt.Errorf("no list of models was found at %s: %v", b.BaseURL, found.Errors)
	}
	return Backend{Title: titleOf(found.Adapter) + " at " + b.BaseURL, BaseURL: b.BaseURL, Adapter: found.Adapter,
		Models: found.Models}, nil
}

func titleOf(adapter string) string {
	return cmp.Or(kinds.GuideTo(adapter).Title, "OpenAI-compatible server")
}
