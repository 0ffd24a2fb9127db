// Package measure compares calls through a gateway with the same calls made directly, and
// reports the time that the gateway adds.
package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
)

// Target is an address for chat requests.
type Target struct {
	URL   string // up to the path of the endpoint
	Key   string
	Model string
}

// Options describe the measurement.
type Options struct {
	Gateway, Direct Target
	Requests        int // of each kind, to each target
	Concurrency     int
	Prompt          string
	MaxTokens       int
	// CPU returns how much time of processors the gateway has used so far; nil where
	// that cannot be known.
	CPU func(context.Context) (time.Duration, error)
	// Progress is called with the number of finished requests, and of all.
	Progress func(done, total int)
}

// Quantiles are quantiles of durations, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Side holds the measurements of one target.
type Side struct {
	Latency Quantiles `json:"latencyMs"`
	// FirstToken is when the first content of streams came; it is nil for plain answers.
	FirstToken *Quantiles `json:"firstTokenMs,omitzero"`
	Failed     int        `json:"failed"`
	FirstError string     `json:"firstError,omitzero"`
}

// Comparison holds the measurements of one kind of request.
type Comparison struct {
	Kind    string `json:"kind"` // plain or stream
	Direct  Side   `json:"direct"`
	Gateway Side   `json:"gateway"`
	// Added are the differences of the quantiles: the time that the gateway adds.
	Added           Quantiles  `json:"addedMs"`
	AddedFirstToken *Quantiles `json:"addedFirstTokenMs,omitzero"`
	// CPUMicros is the processor time of the gateway for each request.
	CPUMicros float64 `json:"cpuMicrosPerRequest,omitzero"`
}

// Result holds all measurements.
type Result struct {
	Requests    int          `json:"requests"`
	Concurrency int          `json:"concurrency"`
	Kinds       []Comparison `json:"kinds"`
}

// rounds is how often the targets are changed: other work of the machine then hits both
// alike.
const rounds = 10

// Run measures plain requests and streams.
func Run(ctx context.Context, o Options) (*Result, error) {
	m := &run{Options: o, client: outgoing.New(outgoing.Options{Own: true, Idle: o.Concurrency}), total: 4 * o.Requests}
	defer m.client.CloseIdleConnections()
	result := &Result{Requests: o.Requests, Concurrency: o.Concurrency}
	for _, isStream := range []bool{false, true} {
		comparison, err := m.compare(ctx, isStream)
		if err != nil {
			return nil, err
		}
		result.Kinds = append(result.Kinds, comparison)
	}
	return result, nil
}

type run struct {
	Options
	client *outgoing.Client

	mu    sync.Mutex
	done  int
	total int
}

// samples are the measurements of one target.
type samples struct {
	latencies, firstTokens []time.Duration
	failed                 int
	firstError             error
}

func (m *run) compare(ctx context.Context, isStream bool) (Comparison, error) {
	// One request to each opens connections and loads the model.
	for name, target := range map[string]Target{"the backend directly": m.Direct, "the gateway": m.Gateway} {
		if _, _, err := m.call(ctx, target, isStream); err != nil {
			return Comparison{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	var direct, gateway samples
	before, err := m.cpu(ctx)
	if err != nil {
		return Comparison{}, err
	}
	for round := range rounds {
		count := m.Requests*(round+1)/rounds - m.Requests*round/rounds
		m.batch(ctx, m.Direct, isStream, count, &direct)
		m.batch(ctx, m.Gateway, isStream, count, &gateway)
		if ctx.Err() != nil {
			return Comparison{}, ctx.Err()
		}
	}
	after, err := m.cpu(ctx)
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Kind: "plain", Direct: direct.side(isStream), Gateway: gateway.side(isStream)}
	c.Added = difference(c.Gateway.Latency, c.Direct.Latency)
	if isStream {
		c.Kind = "stream"
		if c.Gateway.FirstToken != nil && c.Direct.FirstToken != nil {
			added := difference(*c.Gateway.FirstToken, *c.Direct.FirstToken)
			c.AddedFirstToken = &added
		}
	}
	if n := len(gateway.latencies); n > 0 {
		c.CPUMicros = float64((after - before).Microseconds()) / float64(n)
	}
	if len(direct.latencies) == 0 || len(gateway.latencies) == 0 {
		return c, errors.Join(direct.firstError, gateway.firstError)
	}
	return c, nil
}

func (m *run) cpu(ctx context.Context) (time.Duration, error) {
	if m.CPU == nil {
		return 0, nil
	}
	return m.CPU(ctx)
}

// batch sends requests to a target, some at a time.
func (m *run) batch(ctx context.Context, to Target, isStream bool, count int, into *samples) {
	var sending sync.WaitGroup
	left := make(chan struct{}, count)
	for range count {
		left <- struct{}{}
	}
	close(left)
	for range m.Concurrency {
		sending.Go(func() {
			for range left {
				if ctx.Err() != nil {
					return
				}
				first, all, err := m.call(ctx, to, isStream)
				m.note(into, first, all, err)
			}
		})
	}
	sending.Wait()
}

func (m *run) note(into *samples, first, all time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.Progress != nil {
		m.Progress(m.done, m.total)
	}
	if err != nil {
		into.failed++
		if into.firstError == nil {
			into.firstError = err
		}
		return
	}
	into.latencies = append(into.latencies, all)
	if first > 0 {
		into.firstTokens = append(into.firstTokens, first)
	}
}

// call sends one request and reads its answer.
func (m *run) call(ctx context.Context, to Target, isStream bool) (first, all time.Duration, err error) {
	body, err := json.Marshal(map[string]any{
		"model": to.Model, "stream": isStream, "max_tokens": m.MaxTokens,
		"messages": []map[string]string{{"role": "user", "content": m.Prompt}},
	})
	if err != nil {
		return 0, 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if to.Key != "" {
		request.Header.Set("Authorization", "Bearer "+to.Key)
	}
	start := time.Now()
	response, err := m.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // the status says most
		return 0, 0, fmt.Errorf("status %d: %s", response.StatusCode, strings.TrimSpace(string(content)))
	}
	if !isStream {
		_, err = io.Copy(io.Discard, response.Body)
		return 0, time.Since(start), err
	}
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, isData := strings.CutPrefix(line, "data:"); isData && first == 0 && hasContent(data) {
			first = time.Since(start)
		}
		if errors.Is(err, io.EOF) {
			return first, time.Since(start), nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// hasContent reports whether an event of a stream has content: many servers first send one
// that has only the role.
func hasContent(data string) bool {
	doc := jsonscan.Document{AllowDuplicateKeys: true, Deep: true}
	if doc.Parse([]byte(data)) != nil {
		return false // the mark of the end
	}
	for choice := doc.Root().Get("choices").First(); choice.Kind() != jsonscan.Absent; choice = choice.Next() {
		if chat.HasContent(choice.Get("delta")) {
			return true
		}
	}
	return false
}

func (s *samples) side(isStream bool) Side {
	side := Side{Latency: quantiles(s.latencies), Failed: s.failed}
	if isStream {
		first := quantiles(s.firstTokens)
		side.FirstToken = &first
	}
	if s.firstError != nil {
		side.FirstError = s.firstError.Error()
	}
	return side
}

// quantiles returns the nearest ranks.
func quantiles(durations []time.Duration) Quantiles {
	if len(durations) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(durations))
	rank := func(percent int) float64 {
		at := max((len(sorted)*percent+99)/100-1, 0)
		return float64(sorted[at].Microseconds()) / 1000
	}
	return Quantiles{rank(50), rank(99)}
}

func difference(a, b Quantiles) Quantiles {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	return Quantiles{round(a.P50 - b.P50), round(a.P99 - b.P99)}
}
