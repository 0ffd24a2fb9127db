package governor

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The bounds of the runs that are known at a time.
const (
	mostOfOwner = 20_000
	mostRuns    = 200_000
	// roomRetryAfter is the wait that a caller is told whose room is full of runs that hold theirs.
	roomRetryAfter = 30 * time.Second
)

// rooms are the runs of all owners. The governor's mu guards them.
type rooms struct {
	of    map[string]*room
	order ranking
	all   int
}

// room has the runs of an owner. Those that may give way are in free, the one that was used last in
// front; the others, as far as that was found out, in held.
type room struct {
	owner      string
	free, held list.List
	place      int // in the ranking
}

func (m *room) size() int { return m.free.Len() + m.held.Len() }

// seat is the place of a run in a room.
type seat struct {
	who     identity
	room    *room
	element *list.Element
	isHeld  bool
}

// ranking is a heap of the rooms: first the one with the most runs of those that have some which may
// give way.
type ranking []*room

func (o ranking) weight(i int) int {
	if o[i].free.Len() == 0 {
		return 0
	}
	return o[i].size()
}

func (o ranking) Len() int           { return len(o) }
func (o ranking) Less(i, j int) bool { return o.weight(i) > o.weight(j) }

func (o ranking) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push implements heap.Interface.
func (o *ranking) Push(m any) {
	added, _ := m.(*room)
	added.place = len(*o)
	*o = append(*o, added)
}

// Pop implements heap.Interface.
func (o *ranking) Pop() any {
	last := (*o)[len(*o)-1]
	(*o)[len(*o)-1] = nil
	*o = (*o)[:len(*o)-1]
	return last
}

// use notes that a run was used; it may have none.
func (m *rooms) use(s *seat) {
	switch {
	case s == nil:
	case s.isHeld:
		m.move(s, false)
	default:
		s.room.free.MoveToFront(s.element)
	}
}

// move moves a run to the front of those that hold their room, or of the others.
func (m *rooms) move(s *seat, isHeld bool) {
	from, to := &s.room.held, &s.room.free
	if isHeld {
		from, to = to, from
	}
	from.Remove(s.element)
	s.element, s.isHeld = to.PushFront(s), isHeld
	heap.Fix(&m.order, s.room.place)
}

// enter gives a run a seat.
func (m *rooms) enter(r *run) {
	in := m.of[r.owner]
	if in == nil {
		in = &room{owner: r.owner}
		m.of[r.owner] = in
		heap.Push(&m.order, in)
	}
	r.seat = &seat{who: r.identity, room: in}
	r.seat.element = in.free.PushFront(r.seat)
	m.all++
	heap.Fix(&m.order, in.place)
}

// leave frees the seat of a run; it may have none.
func (m *rooms) leave(s *seat) {
	if s == nil {
		return
	}
	in := s.room
	if s.isHeld {
		in.held.Remove(s.element)
	} else {
		in.free.Remove(s.element)
	}
	m.all--
	heap.Fix(&m.order, in.place)
	if in.size() == 0 {
		heap.Remove(&m.order, in.place)
		delete(m.of, in.owner)
	}
}

// seat gives a run its room, if it has none, and refuses it where the room is full; mu is held.
func (g *Governor) seat(r *run, now time.Time) *schema.Error {
	if r.seat != nil || g.runs[r.identity] != r {
		return nil
	}
	in, most := g.rooms.of[r.owner], g.options.Most
	if in != nil && in.size() >= most.OfOwner && !g.giveWay(in, now) ||
		g.rooms.all >= most.InAll && !g.makeRoom(in, now) {
		refusal := schema.CodedError(codeTooMany, "run.too_many", "most", most.OfOwner)
		refusal.RetryAfter, refusal.Of = roomRetryAfter, r.of
		return refusal
	}
	g.rooms.enter(r)
	return nil
}

// makeRoom frees a seat for an owner, whose room is nil while it has no runs: one of the owner with the
// most loses it that does not hold its room. While all runs hold theirs, the owner with the most loses
// the one that was used least recently, unless it has no more than the other: the ended runs of one
// owner never keep another from beginning its own.
func (g *Governor) makeRoom(of *room, now time.Time) bool {
	for len(g.rooms.order) > 0 && g.rooms.order.weight(0) > 0 {
		first := g.rooms.order[0]
		if g.giveWay(first, now) {
			return true
		}
		if first.free.Len() > 0 { // all of these are in use
			break
		}
	}
	own, most := 0, (*room)(nil)
	if of != nil {
		own = of.size()
	}
	for _, in := range g.rooms.order {
		if in.free.Len() > 0 && g.giveWay(in, now) {
			return true
		}
		if in.held.Len() > 0 && (most == nil || in.size() > most.size()) {
			most = in
		}
	}
	if most == nil || most.size() <= own+1 {
		return false
	}
	s, _ := most.held.Back().Value.(*seat)
	return g.remove(s)
}

// giveWay removes the run of a room that was used least recently and does not hold its room, and
// reports whether there was one; mu is held.
func (g *Governor) giveWay(in *room, now time.Time) bool {
	for range in.free.Len() {
		s, _ := in.free.Back().Value.(*seat)
		if g.runs[s.who].holds(now, g.idle()) {
			g.rooms.move(s, true)
			continue
		}
		if g.remove(s) {
			return true
		}
		in.free.MoveToFront(s.element) // it is in use
	}
	if in.held.Len() == 0 {
		return false
	}
	s, _ := in.held.Back().Value.(*seat)
	return !g.runs[s.who].holds(now, g.idle()) && g.remove(s)
}

// keeps reports whether the run of a row in the ledger is known here. One that had to give way is not,
// also while another one of its name is.
func (g *Governor) keeps(key *quota.Key, start time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.runs[identity{key.APIKey, key.User}]
	if r == nil {
		return !g.hasTaken || g.hasFound()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !start.Before(r.usage().Began().Truncate(time.Second))
}

// remove removes a run, unless requests use it; mu is held.
func (g *Governor) remove(s *seat) bool {
	r := g.runs[s.who]
	if r.pins > 0 {
		return false
	}
	g.forget(r)
	return true
}
