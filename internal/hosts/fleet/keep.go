package fleet

import (
	"math"
	"slices"
	"time"
)

const (
	// announced is the number of seconds that a model counts as being loaded after a
	// request was sent for it, although nobody has ordered the load yet.
	announced = 1.0
	// settled is the number of seconds after an order in which a contradicting report
	// of the host is not believed: the report may be older than the effect of the
	// order.
	settled = 3.0
	// drained is the number of seconds without new calls for a model that has to leave
	// for another one. The other one asks again to prolong it.
	drained = 3.0
	// restPart of the time that loading takes is how long a model is left alone after a call,
	// at most longestRest seconds: a client that sends one call after the other is not
	// interrupted between two of them. That ends when the model has been there for as long as
	// loading takes: at most about half of the time is spent on loading.
	restPart    = 0.1
	longestRest = 2.0
)

// Keeping says how package residency keeps the model of an instance in memory. The
// residence of such a model changes by order, or if its host tells that it is different,
// and no longer because a call was sent.
type Keeping struct {
	// Space names the memory that the model shares with others; empty means the memory
	// of its host, which holds Room models.
	Space string
	// Beside names further spaces. A model that has some needs all its spaces for itself.
	Beside []string
	// Capacity is how much fits into the space, and Size how much of it the model takes.
	// Both are 0 for the space of a host. Models that exclude each other have a space with the
	// capacity 1 and the size 1.
	Capacity, Size float64
	// Room is how many models the host has in memory at a time; 0 means the number that
	// the host reports.
	Room int
	// IsPinned means that the model never leaves for another one.
	IsPinned bool
	// IsNear means that the model only falls asleep when it leaves, and wakes up faster than
	// it is loaded. IsWhole means that it comes and goes together with all such models of its
	// host, because these are names of one model.
	IsNear, IsWhole bool
	// IsServer means that the server goes with the model: until Found says otherwise, a model
	// that was told to leave takes its memory.
	IsServer bool
	// IsAdapter means that the model is a LoRA adapter, which the engine loads beside its model.
	// Adapters have a space of their own for each host: see Host.AdapterSpace.
	IsAdapter bool
	// SleepAfter is the idle time after which the model is put to sleep; 0 means never.
	SleepAfter time.Duration
	// Start is how long a request waits for the model where the settings of its service type
	// do not say; 0 means the default. The fleet does not use it.
	Start time.Duration
}

// spaces returns the names of all spaces that the model takes memory in.
func (k Keeping) spaces() []string {
	if k.Space == "" {
		return nil
	}
	return append([]string{k.Space}, k.Beside...)
}

// Shares reports whether two models take memory in the same space.
func (k Keeping) Shares(other Keeping) bool {
	return slices.ContainsFunc(k.spaces(), func(name string) bool { return slices.Contains(other.spaces(), name) })
}

// kept is the state of a model that is kept.
type kept struct {
	Keeping
	since     float64 // when the residence changed, 0 if that is not known
	settles   float64 // until then the host is not believed
	own       float64 // when this gateway used it last
	busy      int32   // calls that have entered and not left
	isOrdered bool    // it is being loaded
	lingers   bool    // its server takes memory, and no calls
	leaves    float64 // until then no call enters: it can leave for another model
	asked     uint64  // its number among the models that wait for room, 0 if it does not
	askedAt   float64 // since when it does
	bytes     int64   // as the host told
}

// believes reports whether a different residence by the host is believed, given the time of
// the question.
func (k *kept) believes(asked float64) bool { return !k.isOrdered && asked >= k.settles }

// space is memory that models of several hosts share, or the adapters of one.
type space struct {
	capacity float64
	told     float64 // the capacity by the host, where nobody says more; 0 if it did not tell
	members  []*Instance
}

// Keep begins to keep the model of the instance in memory, or changes how.
func (i *Instance) Keep(how Keeping) {
	f := i.host.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.kept == nil {
		i.kept = new(kept)
	}
	if how.IsAdapter && i.model.times == firstTimes {
		i.model.times.load = firstAdapter
	}
	if !slices.Equal(i.kept.spaces(), how.spaces()) {
		i.leaveSpaces()
	}
	if how.Room > 0 || i.kept.Room > 0 {
		i.host.room = int32(min(max(how.Room, 0), math.MaxInt32))
	}
	i.kept.Keeping = how
	for _, name := range how.spaces() {
		s := f.spaces[name]
		if s == nil {
			s = &space{capacity: 1}
			f.spaces[name] = s
		}
		if name == how.Space {
			s.capacity = how.Capacity
		}
		if !slices.Contains(s.members, i) {
			s.members = append(s.members, i)
		}
	}
}

// LetGo undoes Keep.
func (i *Instance) LetGo() {
	f := i.host.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	i.leaveSpaces()
	i.kept = nil
}

// leaveSpaces takes the instance out of the spaces that it shares with others.
func (i *Instance) leaveSpaces() {
	if i.kept == nil {
		return
	}
	f := i.host.fleet
	for _, name := range i.kept.spaces() {
		if s := f.spaces[name]; s != nil {
			if s.members = without(s.members, i); len(s.members) == 0 {
				delete(f.spaces, name)
			}
		}
	}
}

// isOrdered reports whether the model is being loaded by order.
func (i *Instance) isOrdered() bool { return i.kept != nil && i.kept.isOrdered }

// isInUse reports whether calls are there, of this gateway or of others.
func (i *Instance) isInUse() bool {
	return i.kept != nil && i.kept.busy > 0 || i.waiting+i.decoding+i.theirs > 0
}

// isResident reports whether the model takes memory. A model that somebody was about to load
// does so for a moment, and one of several servers that share memory does until it denies
// it.
func (i *Instance) isResident(now float64) bool {
	if i.isUnheard() || i.kept != nil && i.kept.lingers {
		return true
	}
	if i.state == loading && i.kept != nil {
		return i.isComing(now)
	}
	return i.state == loaded || i.state == loading
}

// isUnheard reports whether nothing is known of a server that shares memory with others.
func (i *Instance) isUnheard() bool {
	return i.state == unknown && i.kept != nil && i.kept.IsWhole && i.kept.Space != ""
}

// isAdapter reports whether the model is a LoRA adapter, which takes no room of a model.
func (i *Instance) isAdapter() bool { return i.kept != nil && i.kept.IsAdapter }

// isOneWith reports whether two models are names of the same one.
func (i *Instance) isOneWith(other *Instance) bool {
	return i == other ||
		i.host == other.host && i.kept != nil && i.kept.IsWhole && other.kept != nil && other.kept.IsWhole
}

// isComing reports whether a model that is kept is being loaded.
func (i *Instance) isComing(now float64) bool {
	return i.state == loading && (i.kept.isOrdered || now-i.kept.since < announced)
}

// isExpected reports whether a kept model is being loaded, or waits for room for less time
// than loading it elsewhere takes.
func (i *Instance) isExpected(now float64) bool {
	return i.isComing(now) || i.kept.asked > 0 && now-i.kept.askedAt < i.loads()
}

// forget changes the residence. The cache of the model is gone unless it is in memory.
func (i *Instance) forget(to residence, now float64) {
	if to != loaded && i.state != to {
		i.clear()
	}
	i.state = to
	if i.kept != nil {
		i.kept.since, i.kept.leaves, i.kept.settles = now, 0, 0
	}
}

// obey changes the residence by order.
func (i *Instance) obey(to residence, now float64) {
	for _, other := range i.host.instances {
		if !i.isOneWith(other) || other != i && other.isOrdered() {
			continue
		}
		other.forget(to, now)
		if other.kept == nil {
			continue
		}
		// An engine that sleeps and wakes up says so at once. Others still list an unloaded
		// model for a while, or not yet a loaded one.
		if other.kept.settles = now + settled; to == loaded && (other.kept.IsNear || other.kept.IsAdapter) {
			other.kept.settles = now
		}
	}
}

// goOut notes that the model leaves by order.
func (i *Instance) goOut(now float64) {
	if i.kept != nil {
		i.kept.lingers = i.kept.IsServer
	}
	if i.kept != nil && i.kept.IsNear {
		i.obey(sleeping, now)
	} else {
		i.obey(absent, now)
	}
}

// loadsFrom notes that the model is being loaded from now on.
func (i *Instance) loadsFrom(now float64) {
	i.memory.slept, i.memory.since = i.state == sleeping, now
	i.state = loading
	if i.kept != nil {
		i.kept.since, i.kept.leaves = now, 0
	}
}

// Enter counts calls at a model that is in memory, and returns false where it is not, or
// has to leave. Leave must follow for each call.
func (i *Instance) Enter(calls int, now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil || i.state != loaded || i.isLeaving(at) {
		return false
	}
	i.kept.busy += int32(calls)
	i.useOwn(at)
	return true
}

// isLeaving reports whether a model that is kept has to leave for another one.
func (i *Instance) isLeaving(now float64) bool { return i.kept.leaves > now }

// Leave ends a call that has entered, and reports whether it was the last one.
func (i *Instance) Leave(now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil {
		return true
	}
	i.model.pauses.begin(at)
	i.memory.used, i.kept.own = max(i.memory.used, at), at
	i.kept.busy = max(i.kept.busy-1, 0)
	return i.kept.busy == 0
}

// useOwn notes that this gateway uses a model that is kept.
func (i *Instance) useOwn(now float64) {
	i.use(now)
	i.kept.own = now
}

// Begun is the result of an attempt to begin loading.
type Begun uint8

// The results of BeginLoad.
const (
	Began   Begun = iota
	Present       // the model is in memory
	NoRoom        // models that could leave are in use, others wait for longer, or the model itself is about to leave
	Full          // no model may leave: the ones in memory are pinned
)

// BeginLoad notes that the model is being loaded by order, and returns the models that leave
// for it. These are not in memory from now on. A model without room waits for it in the order
// in which it first asked, until it begins or Withdraw is called; rest is the time until
// there may be room even if no call ends, 0 if that is not known. With drain, models that are
// in use and have been there for long enough get no more calls, to make room soon.
func (i *Instance) BeginLoad(drain bool, now time.Time) (leave []*Instance, begun Begun, rest time.Duration) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil {
		return nil, Present, 0
	}
	switch {
	case i.isBeingLoaded(), i.state == loaded && i.isLeaving(at):
		return nil, NoRoom, 0
	case i.state == loaded:
		return nil, Present, 0
	}
	if i.kept.asked == 0 {
		f.asked++
		i.kept.asked, i.kept.askedAt = f.asked, at
	}
	leave, fits := i.leavers(func(other *Instance) bool { return isIdle(other) && other.rests(at) == 0 }, at)
	if !fits || i.isBehind() {
		able, fits := i.leavers(nil, at)
		if !fits {
			i.kept.asked = 0
			return nil, Full, 0
		}
		if i.isBehind() {
			return nil, NoRoom, 0
		}
		for _, other := range able {
			if drain && other.kept != nil && other.state == loaded && at >= other.stays() {
				other.drain(at)
			}
			if left := other.rests(at); left > 0 && isIdle(other) {
				rest = max(rest, seconds(left)+time.Millisecond)
			}
		}
		return nil, NoRoom, rest
	}
	i.order(leave, at)
	return leave, Began, 0
}

// drain lets no more calls enter for a while.
func (i *Instance) drain(now float64) {
	for _, other := range i.host.instances {
		if i.isOneWith(other) {
			other.kept.leaves = now + drained
		}
	}
}

// isBeingLoaded reports whether the model is being loaded by order, under whichever name.
func (i *Instance) isBeingLoaded() bool {
	return slices.ContainsFunc(i.host.instances,
		func(other *Instance) bool { return i.isOneWith(other) && other.isOrdered() })
}

// order notes that the model is being loaded by order, and that others leave for it.
func (i *Instance) order(leave []*Instance, now float64) {
	for _, other := range leave {
		other.goOut(now)
	}
	i.loadsFrom(now)
	i.kept.isOrdered, i.kept.asked = true, 0
}

// Withdraw says that the model does not wait for room any more. Where nobody else does, the
// models that had to leave for it take calls again.
func (i *Instance) Withdraw() {
	f := i.host.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.kept == nil {
		return
	}
	i.kept.asked = 0
	if i.isInTheWay() {
		return
	}
	_, members := i.memoryOf()
	for _, other := range members {
		if other.kept != nil {
			other.kept.leaves = 0
		}
	}
}

// Found takes the observation whether the model takes calls and memory. A model that has just
// left, or is being loaded by order, is not found.
func (i *Instance) Found(isThere, takesMemory bool, now time.Time) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil {
		return
	}
	switch {
	case i.kept.isOrdered || isThere == (i.state == loaded) && i.state != unknown:
	case isThere && i.kept.believes(at):
		i.forget(loaded, at)
	case isThere:
	case !i.isComing(at):
		i.forget(absent, at)
	}
	i.kept.lingers = takesMemory && (!isThere || i.state == absent)
}

// EndLoad notes that the model is in memory, and that calls have entered which have waited
// for it.
func (i *Instance) EndLoad(entered int, now time.Time) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil {
		return
	}
	if i.kept.isOrdered && at > i.memory.since {
		i.model.times.saw(i.memory.slept, at-i.memory.since)
	}
	i.kept.isOrdered = false
	i.obey(loaded, at)
	i.kept.busy += int32(entered)
	i.useOwn(at)
}

// FailLoad notes that the model could not be loaded. The next report of its host says where
// it is. A report that was asked for earlier does not count, because a host may list a model
// while it loads it.
func (i *Instance) FailLoad(now time.Time) { i.endOrder(now, 0) }

// GiveUpLoad notes that nobody waits for the model any more. Its host may take a while to
// notice that, and to take the model off its list.
func (i *Instance) GiveUpLoad(now time.Time) { i.endOrder(now, settled) }

// endOrder ends a load without the model. Reports of the host count that are asked for after
// so many seconds.
func (i *Instance) endOrder(now time.Time, after float64) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept != nil && i.kept.isOrdered {
		i.kept.isOrdered = false
		i.forget(absent, at)
		i.kept.settles = at + after
	}
}

// PutOut notes that a model leaves memory. It returns false, and changes nothing, if the
// model is in use or was used after a time.
func (i *Instance) PutOut(unusedSince, now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept == nil || i.state != loaded || !isIdle(i) {
		return false
	}
	for _, other := range i.host.instances {
		if i.isOneWith(other) &&
			(other != i && other.isPinned() || max(other.memory.used, other.kept.since) > f.clock(unusedSince)) {
			return false
		}
	}
	i.goOut(at)
	return true
}

// PutOutSurplus is PutOut for a model that does not fit into its memory any more, because
// that became smaller, and that leaves before the others. A model in use gets no more calls.
func (i *Instance) PutOutSurplus(now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	capacity, members := i.memoryOf()
	if capacity == 0 || i.kept == nil {
		return false
	}
	var able []*Instance
	for _, other := range members {
		if !other.isResident(at) || other.kept != nil && other.kept.lingers && !other.kept.isOrdered {
			continue // it gives its memory back by itself
		}
		capacity -= other.takes()
		if other.state == loaded && !other.isPinned() {
			able = append(able, other)
		}
	}
	rankLeavers(able, true, at)
	if capacity >= 0 || len(able) == 0 || able[0] != i || at < i.stays() {
		return false
	}
	if !isIdle(i) {
		i.drain(at)
		return false
	}
	i.goOut(at)
	return true
}

// PutBack undoes PutOut: the host has the model all the same.
func (i *Instance) PutBack(now time.Time) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	if i.kept != nil && i.kept.IsServer {
		i.kept.settles = 0 // Found tells where it is
		return
	}
	if i.kept == nil || i.isResident(at) {
		return
	}
	for _, other := range i.host.instances {
		if i.isOneWith(other) && !other.isOrdered() {
			other.forget(loaded, at)
		}
	}
}

// IsMissed reports whether the model was put to sleep by somebody else while calls are there.
func (i *Instance) IsMissed() bool {
	i.host.fleet.mu.Lock()
	defer i.host.fleet.mu.Unlock()
	return i.state == sleeping && i.kept != nil && i.kept.busy > 0
}

// IsOut reports whether the model is neither in memory nor being loaded.
func (i *Instance) IsOut() bool {
	i.host.fleet.mu.Lock()
	defer i.host.fleet.mu.Unlock()
	return i.state == absent || i.state == sleeping
}

// Residence describes where a kept model is, for people and for package residency.
type Residence struct {
	// State is one of States, and Since its begin, zero if that is not known.
	State string
	Since time.Time
	// Used is the time of the last use of the model, zero if there was none, and
	// IsInUse means a use now.
	Used    time.Time
	IsInUse bool
	// IsPinned says that it never leaves.
	IsPinned bool
	// Loads is how long loading took last time from the model's current state, and Left
	// the remaining time while the model is being loaded.
	Loads, Left time.Duration
	// Bytes is how much memory it takes, 0 where the host did not tell.
	Bytes int64
}

// Residence returns where the model is.
func (i *Instance) Residence(now time.Time) Residence {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	r := Residence{State: i.state.String(), IsInUse: i.isInUse(), Loads: seconds(i.loads())}
	if i.memory.used != 0 {
		r.Used = f.began.Add(seconds(i.memory.used))
	}
	if k := i.kept; k != nil {
		r.IsPinned, r.Bytes = k.IsPinned, k.bytes
		if k.since != 0 {
			r.Since = f.began.Add(seconds(k.since))
		}
	}
	if i.state == loading {
		left, _ := i.loadTime(at)
		r.Left = seconds(left)
	}
	return r
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
