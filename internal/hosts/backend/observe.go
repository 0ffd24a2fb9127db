package backend

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Observer is told when something about an instance changes. It is called while
// requests and checks run, so it must not wait, nor ask the instance anything.
type Observer struct {
	Breaker func(breaker.Change)
	Health  func(HealthChange)
}

// HealthChange is a change of the status of an instance.
type HealthChange struct {
	From, To Status
	// Cause is why the instance is unhealthy.
	Cause transport.Cause
}

// Observe makes an observer be told about changes from now on; it takes the place
// of an earlier one.
func (s *State) Observe(observer *Observer) {
	s.observer.Store(observer)
	s.Health.mu.Lock()
	defer s.Health.mu.Unlock()
	s.Health.changed = observer.Health
}

// breakerChanged passes a change of the breaker on.
func (s *State) breakerChanged(change breaker.Change) {
	s.changes.note()
	if observer := s.observer.Load(); observer != nil {
		observer.Breaker(change)
	}
}

// Failure is why a call to an instance failed.
type Failure struct {
	Code string
	// Said has no secrets and no addresses.
	Said say.Sentence
	At   time.Time
}

// NoteFailure remembers why a call failed.
func (s *State) NoteFailure(code string, said say.Sentence, at time.Time) {
	s.failure.Store(&Failure{code, said, at})
}

// LastFailure returns why the last call that failed did; nil where none has.
func (s *State) LastFailure() *Failure { return s.failure.Load() }
