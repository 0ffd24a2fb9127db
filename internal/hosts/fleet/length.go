package fleet

import "math"

const (
	// firstLength is how many tokens an answer is expected to have before anything is known.
	firstLength = 256
	// fewAnswers is how many answers of a caller say more than those of all.
	fewAnswers = 4
	// latest is how many answers the mean length of the latest ones is about.
	latest = 16
	// mostCallers is how many callers a model knows the length of answers of.
	mostCallers = 1024
)

// length is the mean length of the latest answers, in tokens.
type length struct {
	answers int32
	tokens  float64
}

func (l *length) learn(tokens float64) {
	if l.answers < latest {
		l.answers++
	}
	l.tokens += (tokens - l.tokens) / float64(l.answers)
}

// lengths are the lengths of a model's answers, of all and by caller.
type lengths struct {
	all     length
	callers map[string]*length
}

// expect returns how many tokens the answer to a caller is expected to have.
func (l *lengths) expect(caller string) float64 {
	if own := l.callers[caller]; own != nil && own.answers >= fewAnswers {
		return own.tokens
	}
	if l.all.answers > 0 {
		return l.all.tokens
	}
	return firstLength
}

// learn takes the length of an answer. Where too many callers are known, any of them makes room.
func (l *lengths) learn(caller string, tokens float64) {
	l.all.learn(tokens)
	own := l.callers[caller]
	if own == nil {
		for other := range l.callers {
			if len(l.callers) < mostCallers {
				break
			}
			delete(l.callers, other)
		}
		if l.callers == nil {
			l.callers = map[string]*length{}
		}
		own = new(length)
		l.callers[caller] = own
	}
	own.learn(tokens)
}

// learnedAnswers computes anew how long a token of an answer takes at each instance: its own time,
// or that of all while it has answered little.
func (m *model) learnedAnswers() {
	var seconds, tokens float64
	for _, i := range m.instances {
		seconds += i.speed.decode.seconds
		tokens += i.speed.decode.units
	}
	for _, i := range m.instances {
		trust := i.speed.decode.trust()
		i.perOutput = math.Pow(seconds/tokens, 1-trust) * math.Pow(i.speed.decode.value(), trust)
	}
}
