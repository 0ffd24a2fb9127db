package discover

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// lookEvery is how often the finder looks for sources that are due or new.
	lookEvery = 250 * time.Millisecond
	// firstPause is the time until a backend that did not tell its models is asked
	// again; it doubles up to the interval of the health checks.
	firstPause = time.Second
	// askTime is how long a backend may take to tell its models, and firstTime how long
	// the first round may take, which the start of the gateway waits for.
	askTime   = 10 * time.Second
	firstTime = 3 * time.Second
	// maxAsking is how many backends are asked at a time.
	maxAsking = 8
	// maxOthers is how many models of other service types a line of the log names.
	maxOthers = 10
)

// FinderOptions configure a Finder.
type FinderOptions struct {
	Current *routing.Current
	Client  *transport.Client
	// Rebuild makes a new table of the configuration in force, with the models that
	// were found.
	Rebuild func() error
	Log     *slog.Logger
}

// Finder keeps the models of the instances that discover them: it asks each backend when
// it starts, when the configuration changes, and as often as it is checked. Found models
// make no version of the configuration.
type Finder struct {
	options FinderOptions
	asking  chan struct{} // a place for each backend that is being asked
	asks    sync.WaitGroup

	mu       sync.Mutex
	progress map[string]*progress // by the key of the source
}

// progress is the state of the questions to one source.
type progress struct {
	settings backend.Settings
	due      time.Time
	pause    time.Duration // 0 after a success
	running  bool
	// known holds the service types that the backend has told. It is forgotten when the
	// backend cannot be asked, because another one may come back.
	known map[string]schema.ServiceType
}

// NewFinder returns a finder; Run starts it.
func NewFinder(options FinderOptions) *Finder {
	return &Finder{options: options, asking: make(chan struct{}, maxAsking), progress: make(map[string]*progress)}
}

// First asks every backend once, for a short time: their models should be there when the
// gateway begins to answer.
func (f *Finder) First(ctx context.Context) {
	if len(f.options.Current.Load().Sources()) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	f.launch(bounded, time.Now())
	f.asks.Wait()
}

// Run asks backends until ctx ends, and returns when no backend is being asked.
func (f *Finder) Run(ctx context.Context) {
	defer f.asks.Wait()
	waiting.Every(ctx, lookEvery, func(time.Time) { f.launch(ctx, time.Now()) })
}

// launch asks the backends that are due.
func (f *Finder) launch(ctx context.Context, now time.Time) {
	table := f.options.Current.Load()
	sources := table.Sources()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(sources) == 0 && len(f.progress) == 0 {
		return
	}
	keys := make(map[string]bool, len(sources))
	for _, source := range sources {
		key := source.Key()
		keys[key] = true
		p := f.progress[key]
		if p == nil {
			p = new(progress)
			f.progress[key] = p
		}
		if !settings.Equal(p.settings, source.Settings) {
			p.settings, p.due, p.pause = settings.Clone(source.Settings), now, 0
		}
		if !source.Settings.Enabled || p.running || p.due.IsZero() || p.due.After(now) {
			continue
		}
		p.running = true
		f.asks.Go(func() { f.ask(ctx, source, p) })
	}
	for key := range f.progress {
		if !keys[key] {
			delete(f.progress, key)
		}
	}
	table.Found().Keep(keys)
}

// errPanicked replaces a panic while the gateway read an answer of a backend.
var errPanicked = say.Error("discover.panicked")

// untold has the reasons why a backend did not tell its models, one for each way of asking.
type untold []say.Sentence

func (u untold) Error() string { return say.Join(u) }

// ask asks one backend, and plans when it is asked again.
func (f *Finder) ask(ctx context.Context, source *routing.Source, p *progress) {
	f.asking <- struct{}{}
	defer func() { <-f.asking }()
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var models, others []string
	err := errPanicked
	logs.Contain(f.options.Log, "asking a backend for its models",
		func() { models, others, err = f.modelsOf(bounded, source, p) })
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the gateway stops
	}
	now := time.Now()
	if err == nil {
		f.found(source, models, others, now)
	} else {
		f.failed(source, err, now)
	}
	f.plan(source, p, err == nil, now)
}

// plan sets the time of the next question to a backend: with its health checks, and
// sooner after a failure. Without checks it is asked only until it has told its models.
func (f *Finder) plan(source *routing.Source, p *progress, told bool, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.running = false
	health := source.Service.Policy.HealthCheck
	interval := max(health.Interval.Std(), lookEvery)
	switch {
	case p.due.After(now): // the settings changed meanwhile
	case !told:
		p.pause = min(max(2*p.pause, firstPause), max(interval, firstPause))
		p.due = now.Add(p.pause)
	case !health.Enabled:
		p.due, p.pause = time.Time{}, 0
	default:
		p.due, p.pause = now.Add(interval), 0
	}
}

// modelsOf asks a backend for its models of the source's service type, and returns its
// models of other service types beside them.
func (f *Finder) modelsOf(
	ctx context.Context, source *routing.Source, p *progress,
) (models, others []string, err error) {
	send := func(ctx context.Context, _ schema.ServiceType, settings backend.Settings,
		post string) (int, []byte, error) {
		instance, err := source.At(settings.BaseURL, settings.Path)
		switch {
		case err != nil:
			return 0, nil, err
		case instance.Fault.Is():
			return 0, nil, untold{instance.Fault}
		}
		return SendTo(ctx, f.options.Client, instance, post)
	}
	told, err := Ask(ctx, send, Backend{BaseURL: source.Settings.BaseURL, Adapter: source.Adapter(), Known: p.known})
	p.known = nil
	switch {
	case err != nil:
		return nil, nil, err
	case told.Adapter == "":
		return nil, nil, untold(told.Errors)
	case told.certain:
		p.known = map[string]schema.ServiceType{told.Models[0].ID: told.Models[0].ServiceType}
	}
	for _, model := range told.Models {
		if model.ServiceType == source.Service.Type {
			models = append(models, model.ID)
		} else {
			others = append(others, model.ID+" ("+model.ServiceType.String()+")")
		}
	}
	return models, others, nil
}

// found puts the models that a backend has into force.
func (f *Finder) found(source *routing.Source, models, others []string, now time.Time) {
	table := f.options.Current.Load()
	if !table.Found().Set(source.Key(), models, others, now) {
		return
	}
	log := f.options.Log.With("instance", source.Settings.ID(), "service", source.Service.Type.String())
	log.Info("the models of a backend changed", "models", len(models))
	tellServed(log, source, models, others)
	if err := f.options.Rebuild(); err != nil {
		log.Error("the models that were found cannot be served", "error", err)
	}
}

// tellServed warns if a backend has models that are not served, although a reader of
// the configuration would expect them.
func tellServed(log *slog.Logger, source *routing.Source, models, others []string) {
	served := 0
	for _, model := range models {
		if source.Settings.Models.Include(model) {
			served++
		}
	}
	switch {
	case len(models) == 0 && len(others) > 0:
		log.Warn("a backend has no models of the service type for which it is asked; move the instance, or "+
			"give it a name",
			"others", strings.Join(others[:min(len(others), maxOthers)], ", "))
	case len(models) == 0:
		log.Warn("a backend lists no models, so that its instance serves none; load or pull one there")
	case served == 0:
		log.Warn("a backend lists no model that the patterns of its instance match, so that the instance serves none",
			"patterns", strings.Join(source.Settings.Models, ", "), "listed",
			strings.Join(models[:min(len(models), maxOthers)], ", "))
	case served > routing.MaxFound:
		log.Warn("a backend has more models than an instance may find; the first ones by name are served, so choose "+
			"with patterns in models", "models", served, "most", routing.MaxFound)
	}
}

// failed notes why a backend did not tell its models. The models that it told
// before stay.
func (f *Finder) failed(source *routing.Source, err error, now time.Time) {
	said := untold{say.From(err)}
	_ = errors.As(err, &said)
	if before := f.options.Current.Load().Found().Failed(source.Key(), said, now); say.Join(before) != err.Error() {
		f.options.Log.Warn("a backend did not tell its models; those that are known stay",
			"instance", source.Settings.ID(), "service", source.Service.Type.String(), "error", err)
	}
}
