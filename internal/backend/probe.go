package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// maxProbeBody is how much of an answer is read: enough for any answer to a
// health check, so that the connection can be kept.
const maxProbeBody = 4 << 10

// finding is what one probe found.
type finding uint8

const (
	nothing finding = iota // the probe says nothing about the backend
	alive
	loading
	dead
)

// probeResult is a finding and, for the dead, its class.
type probeResult struct {
	finding finding
	cause   transport.Cause
}

// prober asks one backend whether it lives, in the cheapest way its kind has. It
// never asks for work.
type prober struct {
	client  *transport.Client
	connect func(ctx context.Context, to transport.Origin) error
}

// probe looks at a backend until ctx ends. An empty path means to connect only.
func (p *prober) probe(ctx context.Context, to transport.Origin, path string, header []wire.Header) probeResult {
	if path == "" {
		return classify(p.connect(ctx, to))
	}
	response, err := p.client.Send(ctx, to, &wire.Call{Method: "GET", Path: path, Header: header}, transport.Timeouts{})
	if errors.Is(err, transport.ErrInvalidCall) {
		// Our configuration is at fault, and calls will say so; the backend
		// may be well.
		return classify(p.connect(ctx, to))
	}
	if err != nil {
		return classify(err)
	}
	defer func() { _ = response.Close() }()
	if response.Status < 500 {
		// Whoever refuses a key, a path or a rate is there. The rest of the
		// answer is of no interest, and neither is how it ends.
		_, _ = io.CopyN(io.Discard, response, maxProbeBody)
		return probeResult{finding: alive}
	}
	if response.Status == 503 && saysLoading(response) {
		return probeResult{finding: loading}
	}
	return probeResult{dead, transport.Cause("status_" + strconv.Itoa(response.Status))}
}

// saysLoading tells a server that is not ready yet from one that is in trouble.
func saysLoading(response *transport.Response) bool {
	if strings.Contains(strings.ToLower(response.Header("Content-Type")), "html") {
		return false // a page of a proxy in between, whose words mean nothing
	}
	body, _ := io.ReadAll(io.LimitReader(response, maxProbeBody)) // half an answer is read as well
	body = bytes.ToLower(body)
	if bytes.Contains(body, []byte("fail")) {
		return false // "loading the model failed" will not pass by waiting
	}
	for _, word := range []string{"loading", "warming up", "starting", "initializing"} {
		if bytes.Contains(body, []byte(word)) {
			return true
		}
	}
	return false
}

// judge reads how connecting or sending ended.
func classify(err error) probeResult {
	switch {
	case err == nil:
		return probeResult{finding: alive}
	case errors.Is(err, context.Canceled), transport.IsLocal(err):
		return probeResult{finding: nothing}
	}
	return probeResult{dead, transport.CauseOf(err)}
}

// healthPath is where the health of an instance is asked for, empty where its
// kind has no such place. A base URL may end in /v1, under which calls are but
// not every health check, or in the first segment of the path itself.
func healthPath(i *Instance) string {
	health := i.Kind.Health
	if health == "" {
		return ""
	}
	base := ""
	if parsed, err := url.Parse(i.Settings.BaseURL); err == nil {
		base = parsed.EscapedPath()
	}
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	first, _, _ := strings.Cut(health[1:], "/")
	return strings.TrimSuffix(base, "/"+first) + health
}
