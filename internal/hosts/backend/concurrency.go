package backend

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/pace"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Concurrency is the limit of requests that an instance gets at a time; 0 means no limit.
type Concurrency int

// AutoConcurrency says that the number is learned. It is stored as a number. The release
// before reads it, and takes it for no limit.
const AutoConcurrency Concurrency = -1

// auto is how AutoConcurrency is written.
const auto = "auto"

// String returns the number, or auto.
func (c Concurrency) String() string {
	if c == AutoConcurrency {
		return auto
	}
	return strconv.Itoa(int(c))
}

// MarshalText writes the number, or auto.
func (c Concurrency) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a number, or auto.
func (c *Concurrency) UnmarshalText(text []byte) error {
	if string(text) == auto {
		*c = AutoConcurrency
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return say.Error("field.concurrency")
	}
	*c = Concurrency(n)
	return nil
}

// MarshalJSON writes the number.
func (c Concurrency) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(c), 10), nil }

// UnmarshalJSON reads a number, or the text auto.
func (c *Concurrency) UnmarshalJSON(data []byte) error {
	if len(data) >= 2 && data[0] == '"' {
		data = data[1 : len(data)-1]
	}
	return c.UnmarshalText(data)
}

// Pace returns the controller that learns how many requests the instance gets at a time, or
// nil where the number is fixed.
func (i *Instance) Pace() *pace.Controller {
	if i.Settings.MaxConcurrency != AutoConcurrency {
		return nil
	}
	return i.pace.Load()
}

// Slots returns the limit of requests that the instance gets at a time; 0 means no limit.
func (i *Instance) Slots() int {
	if learned := i.Pace(); learned != nil {
		return learned.Limit()
	}
	return max(int(i.Settings.MaxConcurrency), 0)
}

// learnSlots begins or ends learning how many requests the instance gets at a time.
func (i *Instance) learnSlots() {
	switch {
	case i.Settings.MaxConcurrency != AutoConcurrency:
		i.pace.Store(nil)
	case i.pace.Load() == nil:
		i.pace.Store(pace.New())
	}
}

// CanLearnSlots reports whether answers of a service type consist of tokens. Slots are
// learned from the time per token.
func CanLearnSlots(service schema.ServiceType) bool {
	return service == schema.Chat || service == schema.Embedding || service == schema.Rerank
}

// Paced is a call that the controller of an instance's slots follows. Nobody follows the
// zero value.
type Paced struct {
	by       *pace.Controller
	isStream bool
	began    time.Time
	events   int64
}

// Follow begins to follow a call to the instance.
func (i *Instance) Follow(isStream bool, now time.Time) Paced {
	by := i.Pace()
	if by == nil {
		return Paced{}
	}
	by.Begin(isStream, now)
	return Paced{by: by, isStream: isStream, began: now}
}

// Event says that an event with content of a stream came.
func (p *Paced) Event() {
	if p.by != nil && p.isStream {
		p.events++
		p.by.Event()
	}
}

// End says that the call has ended with an outcome and the usage of its answer; further
// calls have no effect.
func (p *Paced) End(outcome breaker.Outcome, usage schema.Usage, now time.Time) {
	if p.by == nil {
		return
	}
	call := pace.Call{IsStream: p.isStream, Took: now.Sub(p.began), Events: p.events}
	if outcome == breaker.Success && usage.Known {
		call.Tokens = usage.Completion
		if call.Tokens == 0 && !p.isStream { // embeddings and rerank
			call.Tokens = usage.Prompt
		}
	}
	p.by.End(call, now)
	*p = Paced{}
}
