package account

import "sync"

const (
	// recentAnswers is how many answers are remembered of a run, or of a key and a model.
	recentAnswers = 32
	// leastLikely is the least length in tokens that an answer without a limit is likely to have,
	// and unknownLikely its length if no answer is known.
	leastLikely, unknownLikely = 1024, 4096
	// mostAnswerers bounds the pairs of keys and models whose answers are remembered.
	mostAnswerers = 4096
)

// Answers are the lengths in tokens of the latest answers of a run, or of a key and a model. The
// zero value has none. It is safe for concurrent use.
type Answers struct {
	mu      sync.Mutex
	tokens  [recentAnswers]int64
	written int
}

// Add adds an answer.
func (r *Answers) Add(tokens int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[r.written%recentAnswers] = tokens
	r.written++
}

// likely returns how long the next answer is likely to be at most: twice the longest one. It is 0
// if there is none.
func (r *Answers) likely() (tokens int64) {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == 0 {
		return 0
	}
	for _, one := range r.tokens {
		tokens = max(tokens, 2*one)
	}
	return max(tokens, leastLikely)
}

// answerers are the answers of pairs of keys and models.
type answerers struct {
	fixed int64 // see AssumeAnswers

	mu sync.Mutex
	of map[answerer]*Answers
}

type answerer struct{ key, model string }

// answers returns the answers of a key and a model, nil if there are none and they are not to be
// made.
func (d *Desk) answers(key, model string, makes bool) *Answers {
	d.answerers.mu.Lock()
	defer d.answerers.mu.Unlock()
	who := answerer{key, model}
	found := d.answerers.of[who]
	if found != nil || !makes {
		return found
	}
	if d.answerers.of == nil {
		d.answerers.of = map[answerer]*Answers{}
	}
	if len(d.answerers.of) >= mostAnswerers {
		for other := range d.answerers.of { // whichever: it costs its key a larger reservation at most
			delete(d.answerers.of, other)
			break
		}
	}
	found = new(Answers)
	d.answerers.of[who] = found
	return found
}

// AssumeAnswers makes every answer without a limit count as one of so many tokens; 0 learns their
// length. It is called before the first request.
func (d *Desk) AssumeAnswers(tokens int64) { d.answerers.fixed = tokens }

// likelyAnswer returns how long the answer to the request is likely to be at most, in tokens.
func (a *Account) likelyAnswer() int64 {
	if a.Desk != nil && a.Desk.answerers.fixed > 0 {
		return a.Desk.answerers.fixed
	}
	if a.turn != nil {
		if known := a.turn.Answers().likely(); known > 0 {
			return known
		}
	}
	if a.Desk != nil && a.Pool != nil {
		if known := a.Desk.answers(a.Caller.KeyID, a.Pool.Model, false).likely(); known > 0 {
			return known
		}
	}
	return unknownLikely
}

// rememberAnswer notes the length of the answer for the next requests.
func (a *Account) rememberAnswer(tokens int64) {
	if a.Desk != nil && a.served != nil && (a.Caller.Grant != nil || a.turn != nil) {
		a.Desk.answers(a.Caller.KeyID, a.served.Model, true).Add(tokens)
	}
}
