package starter

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
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

// ListenBeside returns an address to listen on: the wanted one, or one with the next port, if that
// is the port of a backend on this machine or of a usual model server.
func ListenBeside(wanted string, backends []Backend) string {
	host, text, err := net.SplitHostPort(wanted)
	port, notANumber := strconv.Atoi(text)
	if err != nil || notANumber != nil || TakenBy(wanted, backends) == "" {
		return wanted
	}
	for ; ; port++ {
		address := net.JoinHostPort(host, strconv.Itoa(port))
		if TakenBy(address, backends) == "" && !slices.Contains(Ports(), port) {
			return address
		}
	}
}

// TakenBy returns the base URL of the backend on this machine that has the port of an address to
// listen on, empty if none has.
func TakenBy(listen string, backends []Backend) string {
	_, port, err := net.SplitHostPort(listen)
	for _, b := range backends {
		base, invalid := url.Parse(b.BaseURL)
		if err != nil || invalid != nil {
			continue
		}
		address, _ := netip.ParseAddr(base.Hostname()) // the zero address of a name is not loopback
		isHere := address.IsLoopback() || address.IsUnspecified() || base.Hostname() == "localhost"
		if isHere && base.Port() == port {
			return b.BaseURL
		}
	}
	return ""
}

// Ask asks one backend. The error lists the tries.
func Ask(ctx context.Context, send discover.Send, b discover.Backend) (Backend, error) {
	found, err := discover.Ask(ctx, send, b)
	if err != nil {
		return Backend{}, err
	}
	if found.Adapter == "" {
		return Backend{}, fmt.Errorf("no list of models was found at %s (%s)", b.BaseURL, say.Join(found.Errors))
	}
	return Backend{Title: titleOf(found.Adapter) + " at " + b.BaseURL, BaseURL: b.BaseURL, Adapter: found.Adapter,
		Models: found.Models}, nil
}

func titleOf(adapter string) string {
	return cmp.Or(kinds.GuideTo(adapter).Title, "OpenAI-compatible server")
}
