package fleet

import "math"

// Speeds are learned in this way: every new answer reduces the weight of earlier ones by
// forget, and the last few hundred count. The experience with one instance has half of
// its say after doubt answers, and never all of it: the rest, one minus certain, stays with the
// speed of all. Instances of a model are taken to be equally fast unless
// one differs by a factor of e^differ: noise would otherwise send too much to one that
// only had luck.
const (
	forget  = 0.995
	doubt   = 6
	certain = 0.91
	differ  = 0.3

	firstPrefill = 0.0003 // seconds for a token of a prompt before anything is known
	firstDecode  = 0.02   // seconds for a token of an answer
	// surprise is how many times longer or shorter than expected a time may count. More
	// than that is a clock that jumped or a machine that slept.
	surprise = 20
)

// rate is a quotient that is learned: seconds for each unit.
type rate struct{ seconds, units, answers float64 }

func (r *rate) learn(seconds, units float64) {
	if expected := r.value() * units; expected > 0 {
		seconds = min(max(seconds, expected/surprise), expected*surprise)
	}
	r.seconds = r.seconds*forget + seconds
	r.units = r.units*forget + units
	r.answers = r.answers*forget + 1
}

func (r *rate) value() float64 { return r.seconds / r.units }

// trust is how much the answers of this rate say beside those of all.
func (r *rate) trust() float64 { return certain * r.answers / (r.answers + doubt) }

// speed holds how fast an instance is: how long a token of a prompt takes, and one
// of an answer.
type speed struct {
	prefill, decode rate
	// low and high bound the common speed: between them this instance is taken to be as
	// fast as all.
	low, high float64
}

func newSpeed() speed {
	return speed{
		prefill: rate{seconds: firstPrefill, units: 1},
		decode:  rate{seconds: firstDecode, units: 1},
		high:    math.Inf(1),
	}
}

// learnFirst learns from an answer that came piece by piece: the time to its first
// content, and the work that had to be done until then, in tokens.
func (s *speed) learnFirst(seconds, tokens float64) {
	s.prefill.learn(seconds, tokens)
	own, margin := s.prefill.value(), math.Exp(differ/s.prefill.trust())
	s.low, s.high = own/margin, own*margin
}

// learnWhole learns from an answer that came in one piece. Nobody saw when its first token
// was ready. The time is divided between prompt and answer in proportion to the estimates
// by the speeds known so far. That is right only in the mean, and only if the speeds are;
// but every division moves both toward speeds that explain the times of prompts and
// answers of different lengths, as in expectation maximisation, and both stay above zero.
func (s *speed) learnWhole(seconds, tokens, outputs, perToken float64) {
	prompt, answer := tokens*perToken, outputs*s.decode.value()
	share := prompt / (prompt + answer)
	s.learnFirst(seconds*share, tokens)
	if outputs > 0 {
		s.decode.learn(seconds*(1-share), outputs)
	}
}

// among returns the seconds for a token of a prompt, given those of all instances of the
// model.
func (s *speed) among(all float64) float64 {
	if s.low <= all && all <= s.high {
		return all
	}
	trust := s.prefill.trust()
	return math.Pow(all, 1-trust) * math.Pow(s.prefill.value(), trust)
}
