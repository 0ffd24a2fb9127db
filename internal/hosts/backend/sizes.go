package backend

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// sizesEvery is how often the watcher looks for engines that are due.
	sizesEvery = 500 * time.Millisecond
	// sizesTime is how long an engine may take for all of its answers.
	sizesTime = 5 * time.Second
	// maxSizing is how many engines are asked at a time.
	maxSizing = 4
	// catalogue is the length of a list of models that is the catalogue of a provider and not the
	// report of an engine; it is read every lastSilence.
	catalogue = 128 << 10
)

// Sizes returns the context window of the instance and the most tokens of an answer: those of the
// settings, else those in force at its engine, else those of the price list.
func (i *Instance) Sizes() engines.Sizes {
	return engines.Sizes{
		Window: cmp.Or(i.Settings.ContextWindow, i.window.Load(), i.Listed.Window),
		Output: cmp.Or(i.Settings.MaxOutputTokens, i.output.Load(), i.Listed.Output),
	}
}

// learn notes what the engine reports, and reports whether that is a change. A number that it does
// not report any more stays: the engine of a model that is not in memory has none.
func (s *State) learn(sizes engines.Sizes) bool {
	window := sizes.Window > 0 && s.window.Swap(sizes.Window) != sizes.Window
	output := sizes.Output > 0 && s.output.Swap(sizes.Output) != sizes.Output
	return window || output
}

// SizeWatcher learns the sizes of models from their engines. Checks of health need not be on.
type SizeWatcher struct {
	// Source and Settings are those of a Checker.
	Source   func() []*Instance
	Settings func(*Instance) HealthSettings
	Client   *transport.Client
	// Changed is called after sizes have changed.
	Changed func()
	Log     *slog.Logger

	engines map[engineOf]*sized
	asks    sync.WaitGroup
	places  chan struct{}
}

// engineOf identifies an engine: the instances of one are asked about together.
type engineOf struct {
	kind   *dialect.Kind
	origin transport.Origin
	base   string
	header string
}

// sized is an engine that is asked.
type sized struct {
	due     time.Time
	silence time.Duration
	isAsked atomic.Bool // guards the others: only the asking goroutine uses them while it is true
}

// Run asks the engines until ctx ends, and returns when none is being asked.
func (w *SizeWatcher) Run(ctx context.Context) {
	w.engines, w.places = map[engineOf]*sized{}, make(chan struct{}, maxSizing)
	defer w.asks.Wait()
	w.round(ctx, time.Now())
	waiting.Every(ctx, sizesEvery, func(now time.Time) { w.round(ctx, now) })
}

// round asks the engines that are due.
func (w *SizeWatcher) round(ctx context.Context, now time.Time) {
	groups := map[engineOf][]*Instance{}
	for _, i := range w.Source() {
		isWritten := i.Settings.ContextWindow > 0 && i.Settings.MaxOutputTokens > 0
		if isWritten || i.Kind.Sizes == nil || !i.Settings.Enabled || !i.Healthy() || i.isAsleep() {
			continue
		}
		at := engineOf{i.Kind, i.Origin.Once(), strings.TrimRight(i.Settings.BaseURL, "/"),
			joinHeaders(i.Target.Header) + i.key}
		groups[at] = append(groups[at], i)
	}
	for at := range w.engines {
		if groups[at] == nil {
			delete(w.engines, at)
		}
	}
	for at, members := range groups {
		e, settings := w.engines[at], w.Settings(members[0])
		interval := max(settings.Interval.Std(), sizesEvery)
		if e == nil {
			e = new(sized)
			w.engines[at] = e
			if !settings.Enabled { // whoever turns checks off wants few calls
				e.due = now.Add(interval)
			}
		}
		if e.isAsked.Load() || e.due.After(now) {
			continue
		}
		select {
		case w.places <- struct{}{}:
		default:
			return
		}
		e.isAsked.Store(true)
		w.asks.Go(func() {
			defer func() { e.isAsked.Store(false); <-w.places }()
			logs.Contain(w.Log, "asking an engine for the sizes of its models",
				func() { w.ask(ctx, e, members, interval) })
		})
	}
}

// ask asks an engine about the models of instances. An engine that reports no sizes, and a provider
// with a catalogue, are asked less often.
func (w *SizeWatcher) ask(ctx context.Context, e *sized, members []*Instance, interval time.Duration) {
	e.due = time.Now().Add(jitter(interval))
	bounded, cancel := context.WithTimeout(ctx, sizesTime)
	defer cancel()
	answered, longest := false, 0
	models := make([]string, len(members))
	for n, i := range members {
		models[n] = i.UpstreamModel()
	}
	found := members[0].Kind.Sizes(func(path, post string) []byte {
		status, body := w.call(bounded, members[0], path, post)
		answered, longest = answered || status != 0 && status < 500, max(longest, len(body))
		return body
	}, models)
	isNew := false
	for n, i := range members {
		isNew = i.learn(found[models[n]]) || isNew
	}
	if isNew {
		w.Changed()
	}
	switch {
	case longest > catalogue:
		e.silence = lastSilence
	case found == nil && answered:
		e.silence = min(max(2*e.silence, firstSilence), lastSilence)
	default:
		e.silence = 0
	}
	e.due = time.Now().Add(max(jitter(interval), e.silence))
}

// call returns the status of an engine's answer, 0 without one, and the body of one with status 200.
func (w *SizeWatcher) call(ctx context.Context, i *Instance, path, post string) (int, []byte) {
	method := http.MethodGet
	if post != "" {
		method = http.MethodPost
	}
	path = i.Kind.HealthPath(dialect.Endpoint{BaseURL: i.Settings.BaseURL, HealthPath: path})
	call, err := NewCall(ctx, i.Target, method, path, post)
	if err != nil {
		return 0, nil
	}
	once := i.Origin.Once() // as health checks: requests keep connections of their own
	response, err := w.Client.Send(ctx, &once, call, transport.Timeouts{})
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Close() }()
	if response.Status != http.StatusOK {
		return response.Status, nil
	}
	body, err := io.ReadAll(io.LimitReader(response, engines.MaxJSON))
	if err != nil {
		return 0, nil
	}
	return response.Status, body
}
