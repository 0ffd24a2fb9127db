package live

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Change is a change of state that people should see at once.
type Change struct {
	Sequence   uint64              `json:"-"` // its number
	Time       time.Time           `json:"time"`
	Kind       Kind                `json:"kind"`
	Service    *schema.ServiceType `json:"service,omitzero"`
	Model      string              `json:"model,omitzero"`
	InstanceID string              `json:"instanceId,omitzero"`
	From       string              `json:"from" doc:"A state, a status of health, a version or a level."`
	To         string              `json:"to"`
	Forced     bool                `json:"forced,omitzero" doc:"An operator holds the circuit breaker."`
	Reason     string              `json:"reason,omitzero"`
	Said       []say.Sentence      `json:"said,omitzero" doc:"The reason as codes and values."`
}

// why notes the reason of a change.
func (c *Change) why(said say.Sentence) { c.Reason, c.Said = said.String(), say.All(said) }

// Kind is the kind of thing that changed.
type Kind string

// The kinds.
const (
	BreakerChanged     Kind = "breaker"
	HealthChanged      Kind = "health"
	VersionChanged     Kind = "version"
	DegradationChanged Kind = "degradation"
)

// Keywords describes a kind in the OpenAPI document.
func (Kind) Keywords() map[string]any {
	return map[string]any{"enum": []Kind{BreakerChanged, HealthChanged, VersionChanged, DegradationChanged}}
}

// maxChanges is how many changes are remembered for readers who come back.
const maxChanges = 256

// Observe notes the changes of everything that can change from now on. The function version
// returns the version of the configuration in force.
func (f *Feed) Observe(current *routing.Current, recorder *calls.Recorder, version func() int) {
	f.version, f.level = version(), recorder.Degradation().Level
	f.observeInstances(current.Load())
	current.Observe(func(t *routing.Table) {
		f.observeInstances(t)
		f.versionChanged(version())
	})
	recorder.ObserveLevel(f.levelChanged)
}

// observeInstances asks the instances of a table to report their changes. The state of an
// instance outlives edits, and most were asked before.
func (f *Feed) observeInstances(t *routing.Table) {
	for _, i := range t.Instances() {
		about := Change{Service: &i.Service, Model: i.Settings.Name, InstanceID: i.ID}
		i.Observe(&backend.Observer{
			Breaker: func(c breaker.Change) {
				change := about
				change.Kind, change.Time = BreakerChanged, c.At
				change.From, change.To, change.Forced = c.From.String(), c.To.String(), c.Mode != breaker.Auto
				if c.To == breaker.Open && !change.Forced {
					change.why(say.New("instance.failures", "count", c.Failures))
				}
				f.note(change)
			},
			Health: func(c backend.HealthChange) {
				change := about
				change.Kind, change.Time = HealthChanged, time.Now()
				change.From, change.To = c.From.String(), c.To.String()
				if c.To == backend.StatusUnhealthy {
					change.why(c.Cause.Said())
				}
				f.note(change)
			},
		})
	}
}

func (f *Feed) versionChanged(version int) {
	f.mu.Lock()
	from := f.version
	f.version = version
	f.mu.Unlock()
	if from != version {
		f.note(Change{Kind: VersionChanged, Time: time.Now(), From: strconv.Itoa(from), To: strconv.Itoa(version)})
	}
}

func (f *Feed) levelChanged(level calls.Level) {
	f.mu.Lock()
	from := f.level
	f.level = level
	f.mu.Unlock()
	if from != level {
		f.note(Change{Kind: DegradationChanged, Time: time.Now(), From: from.String(), To: level.String()})
	}
}

// note remembers a change and wakes the readers.
func (f *Feed) note(c Change) {
	c.Time = c.Time.UTC().Truncate(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	c.Sequence = f.sequence
	f.changes[f.sequence%maxChanges] = c
	for r := range f.readers {
		r.wake()
	}
}
