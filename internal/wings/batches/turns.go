package batches

import "slices"

// turns decides the order of owners and batches: owners take turns in rotation, and so do
// the batches of each.
type turns struct{ owners []*ownTurns }

// ownTurns are the batches of one owner.
type ownTurns struct {
	scope string
	jobs  []*job
}

func (t *turns) add(j *job) {
	at := slices.IndexFunc(t.owners, func(o *ownTurns) bool { return o.scope == j.scope })
	if at < 0 {
		t.owners = append(t.owners, &ownTurns{scope: j.scope, jobs: []*job{j}})
		return
	}
	t.owners[at].jobs = append(t.owners[at].jobs, j)
}

func (t *turns) remove(j *job) {
	t.owners = slices.DeleteFunc(t.owners, func(o *ownTurns) bool {
		o.jobs = slices.DeleteFunc(o.jobs, func(other *job) bool { return other == j })
		return len(o.jobs) == 0
	})
}

// next returns a line of the owner whose turn it is, or of the one after it, and so on; nil
// where nobody has one. The function take takes a line of a batch, nil where there is none.
func (t *turns) next(take func(*job) *pending) (*job, *pending) {
	for range t.owners {
		o := t.owners[0]
		t.owners = append(t.owners[1:], o)
		for range o.jobs {
			j := o.jobs[0]
			o.jobs = append(o.jobs[1:], j)
			if p := take(j); p != nil {
				return j, p
			}
		}
	}
	return nil, nil
}
