package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSpeedsAreLearnedFromWholeAnswers gives only how long whole answers took. Both speeds
// are found from that, whatever they are, where prompts and answers have different lengths.
func TestSpeedsAreLearnedFromWholeAnswers(t *testing.T) {
	for _, c := range []struct{ prefill, decode float64 }{{0.0003, 0.02}, {0.00003, 0.005}, {0.002, 0.1}, {0.001, 0.005}, {0.02, 0.2}} {
		rng := rand.New(rand.NewPCG(1, 2))
		s := newSpeed()
		for range 3000 {
			tokens, outputs := math.Exp(7+rng.NormFloat64()), math.Exp(5+rng.NormFloat64())
			seconds := (tokens*c.prefill + outputs*c.decode) * math.Exp(0.1*rng.NormFloat64())
			s.learnWhole(seconds, tokens, outputs, s.prefill.value())
		}
		if got := s.prefill.value() / c.prefill; got < 0.8 || got > 1.25 {
			t.Errorf("%v: a token of a prompt is believed to take %.2f times as long as it does", c, got)
		}
		if got := s.decode.value() / c.decode; got < 0.8 || got > 1.25 {
			t.Errorf("%v: a token of an answer is believed to take %.2f times as long as it does", c, got)
		}
	}
}

// TestInstancesAreEquallyFastUntilOneClearlyIsNot shows when an instance gets a speed of
// its own.
func TestInstancesAreEquallyFastUntilOneClearlyIsNot(t *testing.T) {
	const all = 0.001
	for _, c := range []struct {
		factor  float64
		answers int
		differs bool
	}{{1.2, 1000, false}, {0.85, 1000, false}, {2, 1000, true}, {0.5, 1000, true}, {2, 2, false}, {10, 10, true}} {
		s := newSpeed()
		for range c.answers {
			s.learnFirst(all*c.factor*500, 500)
		}
		got := s.among(all)
		if (got != all) != c.differs {
			t.Errorf("%+v: believed to take %g for a token", c, got)
		}
		if c.differs && c.answers == 1000 && math.Abs(got/all/c.factor-1) > 0.2 {
			t.Errorf("%+v: believed to be %.2f times as slow as all", c, got/all)
		}
	}
}

// TestAMuchSlowerInstanceIsKnownSoon gives ten answers of an instance that is ten times slower.
func TestAMuchSlowerInstanceIsKnownSoon(t *testing.T) {
	const all = 0.001
	s := newSpeed()
	for range 10 {
		s.learnFirst(all*10*500, 500)
	}
	if got := s.among(all) / all; got < 3 {
		t.Errorf("after ten answers it is believed to be %.2f times as slow as all, not three times", got)
	}
}
