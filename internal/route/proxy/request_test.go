package proxy

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// lender counts how often it got its request back.
type lender int

func (l *lender) TakeBack() { *l++ }

// The owner of a request gets it back once, and the proxy cannot read it after
// that: a stream returns it long before it ends.
func TestRequestIsReturnedOnceAndNotReadAfterThat(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 1, func(*config.Service) {})
	var owner lender
	r := d.begin(&Request{Asks: chatRequest(t), Owner: &owner, Caller: &access.Caller{}, Record: newRecord()})
	if err := r.choice.refreshPool(); err != nil {
		t.Fatal(err)
	}
	if owner != 0 || r.Asks == nil {
		t.Errorf("returned %d times while it is read", owner)
	}
	r.Return()
	if owner != 1 || r.Asks != nil || r.choice.Asks != nil || r.attempt.Asks != nil {
		t.Errorf("returned %d times, and a step can still read it", owner)
	}
	r.end(false)
	if owner != 1 {
		t.Errorf("returned %d times", owner)
	}
}

// A refusal says of an instance that its dialect cannot express the request only
// where that is so, and not where the instance was called before.
func TestCalledInstancesAreNotReportedAsUntranslatable(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2, func(s *config.Service) {
		for n := range s.Instances {
			s.Instances[n].Enabled = false
		}
	})
	all := d.pool().Instances
	excluded := survey.Exclusions{Called: all[:1], Untranslatable: all[1:]}
	var s survey.Survey
	s.Take(d.pool(), &excluded, newRecord().Started)
	if s.Shortest != backend.Disabled || len(s.Ready) > 0 {
		t.Errorf("excluded instances are ready: %d", len(s.Ready))
	}
	candidates := s.Unavailable().Details.(map[string]any)["candidates"].([]survey.Skipped)
	if candidates[0].Reason != "disabled" || candidates[1].Reason != "its dialect cannot express the request" {
		t.Errorf("reasons: %+v", candidates)
	}
}
