package calls

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/say"
)

// maxProblems is how many kinds of problems are remembered.
const maxProblems = 100

// ProblemKey identifies failures of the same kind. Instance is empty where the whole call
// failed, without an instance to blame.
type ProblemKey struct {
	Service               schema.ServiceType
	Model, Instance, Code string
}

// Problem is one or more calls, or attempts of calls, that failed in the same way.
type Problem struct {
	ProblemKey
	// Text is the text of the latest failure, and Said its sentence.
	Text        string
	Said        say.Sentence
	Status      int // that the latest caller was sent
	Count       int64
	First, Last time.Time
	RequestID   string // of the latest
}

// problems remembers the kinds of failures apart from the calls, which come and go
// too fast.
type problems struct {
	mu  sync.Mutex
	all map[ProblemKey]*Problem
	// groups are the same by cause, and tracked counts the requests of accounts that refuse
	// some.
	groups  map[GroupKey]*Group
	tracked map[string]*minutes
	// recorded passes on the latest calls, the newest first.
	recorded iter.Seq[*Record]
}

func newProblems(recorded iter.Seq[*Record]) problems {
	return problems{
		all: map[ProblemKey]*Problem{}, groups: map[GroupKey]*Group{}, tracked: map[string]*minutes{},
		recorded: recorded,
	}
}

// note adds the failures of a batch.
func (p *problems) note(batch []Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		at := c.Started.Add(c.Ended)
		if !c.Gone && (c.Code != "" || c.Attempts > 1 || c.Fallbacks > 0) {
			p.group(c, at)
			p.noteFailures(c, at)
		}
		p.count(c, at)
	}
}

// noteFailures adds the attempts of a call that failed, or else the call.
func (p *problems) noteFailures(c *Record, at time.Time) {
	isBlamed := false
	for _, try := range c.Described() {
		if try.Code != "" && try.Code != schema.CodeCancelled {
			p.add(c, ProblemKey{c.Service, c.Model, try.Instance, try.Code}, try.Text, try.Sentence(), at)
			isBlamed = true
		}
	}
	if c.Code != "" && !isBlamed {
		p.add(c, ProblemKey{Service: c.Service, Model: c.Model, Code: c.Code}, "", say.Sentence{}, at)
	}
}

func (p *problems) add(c *Record, key ProblemKey, text string, said say.Sentence, at time.Time) {
	one := p.all[key]
	if one == nil {
		makeRoom(p.all, maxProblems, func(other *Problem) time.Time { return other.Last })
		one = &Problem{ProblemKey: key, First: at}
		p.all[key] = one
	}
	one.Count++
	one.Last, one.RequestID, one.Status, one.Text, one.Said = at, c.RequestID, c.Status, text, said
}

// makeRoom deletes the oldest entry of a map that is full.
func makeRoom[K comparable, V any](all map[K]V, most int, last func(V) time.Time) {
	if len(all) < most {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(all)),
		func(a, b K) int { return last(all[a]).Compare(last(all[b])) })
	delete(all, oldest)
}

// latest returns the problems, the one that happened last first.
func (p *problems) latest() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Problem, 0, len(p.all))
	for _, one := range p.all {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Problem) int { return b.Last.Compare(a.Last) })
	return list
}

// Problems returns the kinds of failures of recorded calls, the one that happened
// last first.
func (r *Recorder) Problems() []Problem {
	r.drain(time.Now()) // readers see records that were not flushed yet
	return r.problems.latest()
}
