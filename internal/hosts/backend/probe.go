package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
)

// maxProbeBody is how much of an answer is read. It is enough for any answer to a
// health check, and an answer that is read to its end lets the connection be kept.
const maxProbeBody = 4 << 10

// finding is the result of one probe.
type finding uint8

const (
	nothing finding = iota // the probe says nothing about the backend
	alive
	loading
	dead
	contradicted // dead by its status, while calls of the backend succeed
)

// probeResult is a finding and, of a backend that is dead, the cause.
type probeResult struct {
	finding finding
	cause   transport.Cause
}

// prober checks whether a backend answers, in the cheapest way of its kind. It never
// makes a model work.
type prober struct {
	client  *transport.Client
	connect func(ctx context.Context, to transport.Origin) error
}

// probe checks a backend until ctx ends. With an empty path it only connects.
func (p *prober) probe(ctx context.Context, to transport.Origin, path string, as *dialect.Target) probeResult {
	if path == "" {
		return classify(p.connect(ctx, to))
	}
	call, err := NewCall(ctx, as, http.MethodGet, path, "")
	if err != nil {
		return classify(p.connect(ctx, to)) // calls will report why
	}
	response, err := p.client.Send(ctx, &to, call, transport.Timeouts{})
	if errors.Is(err, transport.ErrInvalidCall) {
		// The configuration is wrong, which calls will report; the backend may be
		// healthy.
		return classify(p.connect(ctx, to))
	}
	if err != nil {
		return classify(err)
	}
	defer func() { _ = response.Close() }()
	if response.Status < 500 {
		// A backend that refuses a key, a path or a rate is alive. The body is read only to
		// reuse the connection.
		_, _ = io.CopyN(io.Discard, response, maxProbeBody)
		return probeResult{finding: alive}
	}
	if response.Status == 503 && saysLoading(response) {
		return probeResult{finding: loading}
	}
	return probeResult{dead, transport.Cause(transport.CauseStatus + strconv.Itoa(response.Status))}
}

// NewCall returns a call of a path with the headers and the credential of a target. A body is
// JSON, and an empty one is none.
func NewCall(ctx context.Context, as *dialect.Target, method, path, body string) (*wire.Call, error) {
	call := &wire.Call{Method: method, Path: path, Header: slices.Clone(as.Header)}
	if body != "" {
		call.AddHeader("Content-Type", "application/json")
		call.Body = [][]byte{[]byte(body)}
	}
	return call, as.Authorize(ctx, call)
}

// isStatus reports whether the backend answered the check, but with a status of failure.
func isStatus(cause transport.Cause) bool {
	return strings.HasPrefix(string(cause), transport.CauseStatus)
}

// isDoubtful reports whether a check that failed says little about calls: some engines serve
// requests and fail to list their models. A status of 502 and above means that the server is
// not available, for checks and calls alike.
func isDoubtful(path string, cause transport.Cause) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.HasSuffix(path, "/models") &&
		(cause == transport.CauseStatus+"500" || cause == transport.CauseStatus+"501")
}

// saysLoading reports whether a 503 comes from a server that is loading a model.
func saysLoading(response *transport.Response) bool {
	if strings.Contains(strings.ToLower(response.Header("Content-Type")), "html") {
		return false // the page of a proxy says nothing about the backend
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

// classify returns the result of connecting or sending that ended with err.
func classify(err error) probeResult {
	switch {
	case err == nil:
		return probeResult{finding: alive}
	case errors.Is(err, context.Canceled), transport.IsLocal(err):
		return probeResult{finding: nothing}
	}
	return probeResult{dead, transport.CauseOf(err)}
}

// healthPath returns the path of the health check of an instance, empty where its kind
// has none and the instance names none.
func healthPath(i *Instance) string {
	return i.Kind.HealthPath(dialect.Endpoint{BaseURL: i.Settings.BaseURL, APIVersion: i.Settings.APIVersion,
		HealthPath: i.Settings.HealthPath})
}
