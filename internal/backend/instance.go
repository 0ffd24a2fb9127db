package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/proxy/transport"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Instance is one backend as one configuration describes it. It never changes;
// what does change is its State, which outlives edits of the configuration.
type Instance struct {
	Settings Settings
	Service  schema.ServiceType
	// ID names the instance among people who may know its address, Handle among
	// those who may not.
	ID, Handle string
	Kind       *adapter.Kind
	Target     *adapter.Target
	Origin     transport.Origin
	// Slot is the place of the instance in its pool, and Share its weight in
	// thousandths, so that shares add up exactly.
	Slot  int
	Share int64

	*State
}

// State is what lives and changes about an instance.
type State struct {
	since    time.Time
	inFlight atomic.Int64
	outcomes [outcomeCount]atomic.Int64
}

// Outcome is how a call to an instance ended.
type Outcome uint8

// The outcomes. A caller that left says nothing about the instance, so it is
// neither a success nor a failure.
const (
	Success Outcome = iota
	Failure
	Cancelled

	outcomeCount = int(Cancelled) + 1
)

// New prepares an instance. The state is the one that it had before, or nil for
// an instance that is new.
func New(settings Settings, service schema.ServiceType, serviceAdapter string, state *State) (*Instance, error) {
	name := settings.Adapter
	if name == "" {
		name = serviceAdapter
	}
	if err := adapter.Check(name, service); err != nil {
		return nil, err
	}
	kind, err := adapter.Lookup(name)
	if err != nil {
		return nil, err
	}
	target, err := kind.Target(service, adapter.Endpoint{
		BaseURL:              settings.BaseURL,
		Path:                 settings.Path,
		APIKey:               settings.APIKey,
		Model:                settings.UpstreamModel,
		Headers:              settings.Headers,
		ForwardAuthorization: settings.ForwardAuthorization,
	})
	if err != nil {
		return nil, err
	}
	origin, err := transport.ParseOrigin(settings.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	if state == nil {
		state = &State{since: time.Now()}
	}
	return &Instance{
		Settings: settings,
		Service:  service,
		ID:       settings.ID(),
		Handle:   handle(settings.ID()),
		Kind:     kind,
		Target:   target,
		Origin:   origin,
		Share:    share(settings.Weight),
		State:    state,
	}, nil
}

// handle makes an opaque name that stays the same as long as the instance does.
func handle(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "i-" + hex.EncodeToString(sum[:5])
}

// share turns a weight into thousandths; any weight above zero gets a share.
func share(weight float64) int64 {
	if weight <= 0 {
		return 0
	}
	return max(1, int64(math.Round(weight*1000)))
}

// Ready reports whether the instance may be picked. Asking changes nothing.
func (i *Instance) Ready() bool { return i.Settings.Enabled && i.Share > 0 }

// WhyNot returns why the instance gets no traffic, or the empty string.
func (i *Instance) WhyNot() string {
	switch {
	case !i.Settings.Enabled:
		return "disabled"
	case i.Share == 0:
		return "weight 0"
	}
	return ""
}

// Acquire takes the instance for one call; false means that it is no longer
// ready and another one must be picked. Every Acquire that succeeds is followed
// by one Release.
func (i *Instance) Acquire() bool {
	if !i.Ready() {
		return false
	}
	i.inFlight.Add(1)
	return true
}

// Release ends a call.
func (i *Instance) Release(outcome Outcome) {
	i.inFlight.Add(-1)
	i.outcomes[outcome].Add(1)
}

// Since returns when the instance was added.
func (s *State) Since() time.Time { return s.since }

// InFlight returns the number of calls that have not ended.
func (s *State) InFlight() int64 { return s.inFlight.Load() }

// Ended returns the number of calls that ended with the given outcome.
func (s *State) Ended(outcome Outcome) int64 { return s.outcomes[outcome].Load() }
