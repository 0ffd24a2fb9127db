package processes

import (
	"cmp"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// tick is called when something is due.
func (m *Manager) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.arrange()
}

// due is the next time at which something has to be decided.
type due struct{ at time.Time }

func (d *due) by(at time.Time) {
	if d.at.IsZero() || at.Before(d.at) {
		d.at = at
	}
}

// arrange decides who runs, after anything has changed. Processes are served in the order in
// which they were first waited for: an earlier one gets its place before a later one, and
// whoever is in its way ends once its requests have ended.
func (m *Manager) arrange() {
	if m.isClosed {
		return
	}
	now, next := time.Now(), due{}
	var wanted []*process
	for name, p := range m.processes {
		p.isYielding = false
		if p.isRemoved && !p.isActive() && p.uses == 0 {
			delete(m.processes, name)
			continue
		}
		if p.wanted != 0 {
			wanted = append(wanted, p)
		}
	}
	slices.SortFunc(wanted, func(a, b *process) int { return cmp.Compare(a.wanted, b.wanted) })
	var first []*process // those that have a place, or get the next one
	for _, p := range wanted {
		if m.serve(p, first, now, &next) {
			first = append(first, p)
		}
	}
	m.keepWithin(now, &next)
	m.retire(now, &next)
	if next.at.IsZero() {
		m.timer.Stop()
		return
	}
	m.timer.Reset(max(0, next.at.Sub(now)))
}

// serve does what can be done now for a process that is waited for, and reports whether
// those that were waited for later have to leave it its place.
func (m *Manager) serve(p *process, earlier []*process, now time.Time, next *due) bool {
	switch {
	case p.admits(now):
		m.admit(p)
		return true
	case p.isActive():
		return true // it is about to be ready, or to end
	case now.Before(p.retryAt):
		next.by(p.retryAt)
		return false
	}
	inTheWay, isFree := m.conflicts(p, earlier)
	for _, other := range inTheWay {
		m.yield(other, now, next)
	}
	if isFree {
		m.start(p)
	}
	return true
}

// isActive reports whether the process takes memory.
func (p *process) isActive() bool {
	return p.state == Starting || p.state == Ready || p.state == Stopping
}

// conflicts returns which active processes have to end before a process may start, and
// whether it may start now.
func (m *Manager) conflicts(p *process, earlier []*process) (inTheWay []*process, isFree bool) {
	switch {
	case p.settings.Group != "":
		for _, other := range m.processes {
			if other != p && other.settings.Group == p.settings.Group && other.isActive() {
				inTheWay = append(inTheWay, other)
			}
		}
		isTaken := slices.ContainsFunc(earlier, func(e *process) bool { return e.settings.Group == p.settings.Group })
		return inTheWay, len(inTheWay) == 0 && !isTaken
	case p.settings.Memory > 0:
		taken := p.settings.Memory
		for _, e := range earlier {
			if !e.isActive() {
				taken += e.settings.Memory // its place is kept
			}
		}
		inTheWay, isFree = m.surplus(taken)
		return inTheWay, isFree
	}
	return nil, true
}

// surplus returns the active processes that were used least recently and would have to end
// for a new amount of memory, and whether there is room for it now.
func (m *Manager) surplus(more schema.Bytes) (inTheWay []*process, hasRoom bool) {
	var active []*process
	total := more
	for _, p := range m.processes {
		if p.isActive() && p.settings.Memory > 0 {
			active = append(active, p)
			total += p.settings.Memory
		}
	}
	hasRoom = total <= m.memory
	slices.SortFunc(active, func(a, b *process) int {
		return cmp.Or(cmpBool(a.uses > 0 || a.state == Starting, b.uses > 0 || b.state == Starting), a.lastUsed.Compare(b.lastUsed), cmp.Compare(a.name, b.name))
	})
	for _, p := range active {
		if total <= m.memory {
			break
		}
		inTheWay = append(inTheWay, p)
		total -= p.settings.Memory
	}
	return inTheWay, hasRoom
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// yield makes a process give way to another one: at once if it has been without requests
// for a moment, else after those it has. One that is about to be ready serves those who
// wait for it first, and ends at once if nobody does.
func (m *Manager) yield(p *process, now time.Time, next *due) {
	p.isYielding = true
	switch {
	case p.state == Starting && p.wanted == 0:
		m.end(p)
	case p.state != Ready || p.uses > 0:
	default:
		// A client that sends one request after the other is not interrupted between two of
		// them while the process has not been there for as long as its start took.
		rested := p.lastUsed.Add(min(p.took/10, maxRest))
		served := p.readyAt.Add(p.took)
		if rested.After(served) {
			rested = served
		}
		if now.Before(rested) {
			next.by(rested)
			return
		}
		m.end(p)
	}
}

// keepWithin ends processes that have more memory together than they may, which happens
// when the settings change.
func (m *Manager) keepWithin(now time.Time, next *due) {
	if m.memory == 0 {
		return
	}
	inTheWay, hasRoom := m.surplus(0)
	if hasRoom {
		return
	}
	for _, p := range inTheWay {
		m.yield(p, now, next)
	}
}

// retire ends what nobody has used for long, and what the settings do not have any more.
func (m *Manager) retire(now time.Time, next *due) {
	for _, p := range m.processes {
		isOld := p.next != nil || p.isRemoved
		switch {
		case isOld && p.state == Starting:
			m.end(p)
		case p.state != Ready || p.uses > 0:
		case isOld:
			m.end(p)
		case p.settings.StopAfter > 0:
			idle := p.lastUsed.Add(p.settings.StopAfter.Std())
			if idle.After(now) {
				next.by(idle)
				continue
			}
			if m.keeps != nil && m.keeps(p.name) {
				continue
			}
			m.log.Info("a process is stopped because nobody used it", "process", p.name, "for", p.settings.StopAfter.String())
			m.end(p)
		}
	}
}
