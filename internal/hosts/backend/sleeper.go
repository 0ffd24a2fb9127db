package backend

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

const (
	// lookAgain is the interval between questions whether an engine has loaded a model.
	// In the beginning the interval is shorter, first firstLook.
	firstLook = 20 * time.Millisecond
	lookAgain = 250 * time.Millisecond
	// doubtTime is how long an engine may deny a model that it has reported loaded. After
	// that it gets requests all the same, because their answers are the truth. A sleeping
	// engine gets none: it would hold all requests until it is woken up.
	doubtTime = 3 * time.Second
	// giveUpTime is the timeout for telling an engine that nobody waits for a model.
	giveUpTime = 5 * time.Second
	// maxSaid is how much of an answer to a command is read.
	maxSaid = 4 << 10
)

// sleeper tells the engine of an instance to load its model and to give it up.
type sleeper struct {
	instance *Instance
	lever    engines.Lever
	prober   prober
	order    engines.Order
}

// NewSleeper returns the sleeper that loads and unloads the model of an instance, nil
// where its engine has no commands for that. The engine keeps the model without requests
// for a time, as in engines.Order.
func NewSleeper(i *Instance, client *transport.Client, keep time.Duration) residency.Sleeper {
	if i.lever().Load == nil {
		return nil
	}
	order := engines.Order{Model: i.UpstreamModel(), Embeds: i.Service == schema.Embedding, Keep: keep}
	if i.Settings.LoRA != nil {
		order.Path = i.Settings.LoRA.Path
	}
	return &sleeper{i, i.lever(), prober{client: client}, order}
}

// Wake implements residency.Sleeper. Some engines answer when the model is loaded, some
// before, and so it asks which models are there.
func (s *sleeper) Wake(ctx context.Context) error {
	err := s.load(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		s.giveUp(ctx, cause)
	}
	return err
}

// giveUp cancels a load when nobody waits for it any more. A load that exceeds the longest
// wait goes on, or it would never come to its end; so does the load of a gateway that stops.
func (s *sleeper) giveUp(ctx context.Context, why error) {
	if !s.lever.GoesOn || errors.Is(why, residency.ErrTimeout) || errors.Is(why, residency.ErrStopped) {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTime)
	defer cancel()
	_, _ = s.send(bounded, s.lever.Unload(s.order)) // nobody waits for that either
}

// load has the engine load the model, and waits until it is there.
func (s *sleeper) load(ctx context.Context) error {
	if s.order.Path != "" {
		if isThere, err := s.readyAdapter(ctx); isThere || err != nil {
			return err
		}
	}
	said, err := s.send(ctx, s.lever.Load(s.order))
	if err != nil {
		return err
	}
	if s.isUnknown(said) && !s.lever.IsImplicit {
		return s.cannotWake(ctx)
	}
	began := time.Now()
	for pause := firstLook; ; pause = min(2*pause, lookAgain) {
		isTooEarly := s.isTooEarly(said)
		switch state := s.look(ctx, true); {
		case state == isAwake:
			return nil
		case ctx.Err() != nil: // the engine was not asked to the end
			return context.Cause(ctx)
		case isTooEarly:
		case state == hasFailed:
			return errNotLoaded
		case state == isLoading:
		case !said.isGood() && !s.isUnknown(said):
			return s.failed(said)
		case state == isUntold, s.isUnknown(said):
			return nil
		case time.Since(began) < doubtTime:
		case s.lever.IsNear:
			return say.Wrap(ErrStuck, "model.stuck", "why", say.New("model.still_asleep"))
		default:
			return nil
		}
		if err := waiting.Pause(ctx, pause); err != nil {
			return err
		}
		if isTooEarly {
			if said, err = s.send(ctx, s.lever.Load(s.order)); err != nil {
				return err
			}
			began = time.Now()
		}
	}
}

// readyAdapter reports whether the engine has the LoRA adapter. If it has another one of that
// name, from an earlier path, it gives that up first.
func (s *sleeper) readyAdapter(ctx context.Context) (isThere bool, err error) {
	switch state := s.look(ctx, true); {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case state == isAwake:
		return true, nil
	case state == isStale:
		return false, s.Sleep(ctx)
	}
	return false, nil
}

// cannotWake returns why an engine that does not know the command does not have its model.
// An engine that cannot be put to sleep either has it, unless it reports that it sleeps.
func (s *sleeper) cannotWake(ctx context.Context) error {
	switch state := s.look(ctx, false); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.order.Path != "" && state != isAwake:
		return say.Wrap(residency.ErrUnable, "model.no_adapters")
	case state == isGone:
		return say.Wrap(residency.ErrUnable, "model.no_wake")
	}
	return nil
}

// isTooEarly reports whether the engine could not load a model because another one has not
// ended yet.
func (s *sleeper) isTooEarly(answer said) bool {
	later := s.lever.Later
	return later != "" && !answer.isGood() && strings.Contains(answer.text, later)
}

// errNotLoaded means that the engine reports a failure to load the model.
var errNotLoaded = say.Error("model.not_loaded")

// ErrStuck is returned by Wake when a model sleeps in the memory of its server and could not
// be woken up. The server answers nothing until then, whatever it says of its health.
var ErrStuck = say.Error("model.stuck_plain")

// failed returns why the engine has not loaded the model, by its answer to the command.
func (s *sleeper) failed(answer said) error {
	if s.lever.IsNear && answer.status >= http.StatusInternalServerError {
		why := answer.failure()
		return say.Wrap(errors.Join(ErrStuck, why), "model.stuck", "why", why)
	}
	return answer.failure()
}

// Sleep implements residency.Sleeper.
func (s *sleeper) Sleep(ctx context.Context) error {
	said, err := s.send(ctx, s.lever.Unload(s.order))
	switch {
	case transport.IsRefusal(err):
		return nil // there is no server, and no memory that it takes
	case err != nil:
		return err
	case s.isUnknown(said) && s.order.Path != "":
		return say.Wrap(residency.ErrUnable, "model.no_adapters")
	case s.isUnknown(said):
		return say.Wrap(residency.ErrUnable, "model.no_sleep")
	case said.isGood(), s.look(ctx, true) == isGone:
		return nil
	}
	return said.failure()
}

// IsAwake implements residency.Looker.
func (s *sleeper) IsAwake(ctx context.Context) bool { return s.look(ctx, true) == isAwake }

// said is how an engine answered a command.
type said struct {
	status int
	text   string
}

func (s said) isGood() bool { return s.status >= 200 && s.status < 300 }

// isUnknown reports whether the engine does not know the command, by its answer.
func (s *sleeper) isUnknown(answer said) bool {
	switch answer.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return strings.Contains(answer.text, s.lever.Unknown)
	}
	return false
}

func (s said) failure() error {
	if s.isGood() {
		return nil
	}
	return say.Error("model.engine_status", "status", s.status, "words", s.text)
}

// send sends a command and waits for its answer, for as long as the context lasts.
func (s *sleeper) send(ctx context.Context, command engines.Command) (said, error) {
	i := s.instance
	call, err := NewCall(ctx, i.Target, command.Method, s.path(command.Path), command.Body)
	if err != nil {
		return said{}, err
	}
	response, err := s.prober.client.Send(ctx, &i.Origin, call, transport.Timeouts{Connect: i.Timeouts.Connect.Std()})
	if err != nil {
		return said{}, err
	}
	defer func() { _ = response.Close() }()
	text, err := io.ReadAll(io.LimitReader(response, maxSaid))
	if err != nil && ctx.Err() != nil {
		return said{}, context.Cause(ctx)
	}
	return said{response.Status, string(text)}, nil
}

func (s *sleeper) path(path string) string {
	return s.instance.Kind.HealthPath(dialect.Endpoint{BaseURL: s.instance.Settings.BaseURL, HealthPath: path})
}

// seen is the state of a model by its engine's own words.
type seen uint8

const (
	isUntold seen = iota
	isGone
	isAwake
	isLoading
	hasFailed
	isStale // it is a LoRA adapter from another path
)

// look asks the engine where its model is; without ofMemory it also asks questions that
// answer this beside other things. LoRA adapters have questions of their own.
func (s *sleeper) look(ctx context.Context, ofMemory bool) seen {
	bounded, cancel := context.WithTimeout(ctx, inquireEvery)
	defer cancel()
	all := engines.NewReport()
	about := subjects{models: []string{s.order.Model}}
	if s.order.Path != "" {
		about = subjects{adapters: map[string]string{s.order.Model: s.order.Path}}
	}
	for _, one := range s.instance.Kind.Tells {
		if one.IsOfAdapters != (s.order.Path != "") || ofMemory && !one.IsOfMemory && !one.IsOfAdapters {
			continue
		}
		asked := question{Question: one, path: s.path(one.Path)}
		if report, outcome := s.prober.ask(bounded, s.instance.Origin, &asked, s.instance.Target,
			about); outcome == understood {
			all.Add(&report)
		}
	}
	switch {
	case len(all.Adapters) > 0:
		return isAwake
	case len(all.Stale) > 0:
		return isStale
	case all.TellsAdapters:
		return isGone
	case !all.TellsModels:
		return isUntold
	case len(all.Awake) > 0:
		return isAwake
	case len(all.Loading) > 0:
		return isLoading
	case len(all.Failed) > 0:
		return hasFailed
	}
	return isGone
}
