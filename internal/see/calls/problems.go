package calls

import (
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// maxProblems is how many kinds of problems are remembered.
const maxProblems = 100

// Problem is one or more calls, or attempts of calls, that failed in the same way.
type Problem struct {
	// Attempt says that the instance failed; otherwise the whole call did, without
	// an instance to blame.
	Attempt         bool
	Service         schema.ServiceType
	Model, Instance string
	Code            string
	// Text is what was said about the latest of them.
	Text        string
	Status      int // that the latest caller was sent
	Count       int64
	First, Last time.Time
	RequestID   string // of the latest
}

type problemKey struct {
	service         schema.ServiceType
	model, instance string
	code            string
}

// problems remembers the kinds of failures apart from the calls, which come and go
// too fast.
type problems struct {
	mu  sync.Mutex
	all map[problemKey]*Problem
	// groups are the same by cause, and tracked counts the requests of accounts that refuse
	// some.
	groups  map[groupKey]*Group
	tracked map[string]*minutes
	// recorded passes on the latest calls, the newest first.
	recorded func(yield func(*Record) bool)
}

// note adds the failures of a batch.
func (p *problems) note(batch []Record) {
	for i := range batch {
		c := &batch[i]
		if c.Gone || c.Code == "" && c.Attempts <= 1 && c.Fallbacks == 0 {
			p.countTracked(c)
			continue
		}
		p.mu.Lock()
		p.group(c, c.Started.Add(c.Ended))
		p.mu.Unlock()
		p.countTracked(c)
		blamed := false
		for _, try := range c.Described() {
			if try.Code != "" && try.Code != schema.CodeCancelled {
				p.add(c, problemKey{c.Service, c.Model, try.Instance, try.Code}, try.Text)
				blamed = true
			}
		}
		if c.Code != "" && !blamed {
			p.add(c, problemKey{service: c.Service, model: c.Model, code: c.Code}, "")
		}
	}
}

// countTracked counts a request where some are refused.
func (p *problems) countTracked(c *Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tracked) > 0 {
		p.count(c, c.Started.Add(c.Ended))
	}
}

func (p *problems) add(c *Record, key problemKey, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[problemKey]*Problem{}
	}
	at := c.Started.Add(c.Ended)
	one := p.all[key]
	if one == nil {
		if len(p.all) >= maxProblems {
			p.forgetOldest()
		}
		one = &Problem{Attempt: key.instance != "", Service: key.service, Model: key.model, Instance: key.instance, Code: key.code, First: at}
		p.all[key] = one
	}
	one.Count++
	one.Last, one.RequestID, one.Status, one.Text = at, c.RequestID, c.Status, text
}

func (p *problems) forgetOldest() {
	var oldest problemKey
	var at time.Time
	for key, one := range p.all {
		if at.IsZero() || one.Last.Before(at) {
			oldest, at = key, one.Last
		}
	}
	delete(p.all, oldest)
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
	r.pipe.drain(time.Now()) // readers see records that were not flushed yet
	return r.pipe.problems.latest()
}
