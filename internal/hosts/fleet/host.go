package fleet

import "slices"

// Host is a server that runs one model or several, and does their prefills one after the
// other as far as the fleet can tell. The fields that every choice reads come first, in
// one line of the processor's cache; the size is a multiple of these lines for that.
type Host struct {
	backlog float64 // seconds of prefill of the calls in the queue
	settled float64 // the same of calls that were settled and have not ended
	others  float64 // the same of other gateways, by their last message
	last    float64 // when it was done with a prefill
	first   float64 // when the first call of the queue was sent
	takes   float64 // seconds of its prefill
	isWhole bool    // its answer comes whole
	room    int32   // how many models are in memory at a time; 0 is not known
	told    told

	fleet     *Fleet
	name      string
	instances []*Instance
	queue     []*Call // own calls without a first token yet, in the order of sending
	epoch     int32   // grows when all that the host had in memory is lost
	cold      int32   // how many calls of the queue wait for a model to be loaded
	asked     float64 // when the last call was sent
	crowd     crowd
	_         [48]byte // up to the end of a cache line: calls of one must not slow down another
}

// lateness is the share of its prefill that still counts for a settled call. If an instance
// is slower than expected, calls are settled there while they still wait, and nobody sees
// it until they end. So calls that have not ended must count.
const lateness = 0.03

// stuck is how many times longer than estimated the first call of a queue may take before
// the host is suspected to hang. From then on it is expected to hang for as long again: a
// call that has taken so long can take any time.
const stuck = 3

// unfinished is the share of the prefill of the first call that counts until its first token
// comes. Of two hosts the idle one is chosen thereby.
const unfinished = 0.1

// wait returns the seconds of prefill that a new call would find in front of it: the work
// for own calls and the calls of other gateways, less the finished part of the first one,
// plus the work that the host reported beside them.
func (h *Host) wait(now float64) float64 {
	seconds, left := h.fleet.trust*h.told.work(now), 0.0
	if h.backlog > 0 {
		if h.isWhole {
			h.settle(now)
		}
		done := h.spent(now)
		if overdue := done - stuck*h.takes; overdue > 0 {
			left = overdue
		}
		if most := (1 - unfinished) * h.takes; done > most {
			done = most
		}
		left += h.backlog - done
	}
	seconds += left + lateness*h.settled
	if h.others > 0 {
		// Since their message, the host has worked on their calls and on own ones in
		// proportion to both.
		done := max(now-h.fleet.heard, 0) * h.others / (h.others + h.backlog)
		seconds += max(h.others-done, 0)
	}
	return seconds
}

// spent returns how long the host has worked on the first call of its queue. The
// comparisons are quicker than min and max, which look for NaN.
func (h *Host) spent(now float64) float64 {
	since := h.first
	if h.last > since {
		since = h.last
	}
	if now < since {
		return 0
	}
	return now - since
}

// worked records that the host is done with the first call of its queue.
func (h *Host) worked(now float64) { h.last = max(h.last, now) }

// settle removes calls with whole answers from the queue at the estimated time of their
// first token: nobody sees when that token comes.
func (h *Host) settle(now float64) {
	for len(h.queue) > 0 && h.isWhole && h.spent(now) >= h.takes {
		h.worked(max(h.first, h.last) + h.takes)
		h.settled += h.takes
		h.queue[0].decode()
	}
}

// unsettle forgets a call that was settled.
func (h *Host) unsettle(c *Call) {
	if h.settled -= c.takes; h.settled < tie {
		h.settled = 0 // sums of fractions are not exact
	}
}

// enqueue adds a call to the queue.
func (h *Host) enqueue(c *Call) {
	h.queue = append(h.queue, c)
	h.backlog += c.takes
	h.asked = c.sent
	if c.cold {
		h.cold++
	}
	h.lookAtFirst()
}

// dequeue takes a call out of the queue.
func (h *Host) dequeue(c *Call) {
	h.queue = slices.DeleteFunc(h.queue, func(other *Call) bool { return other == c })
	h.backlog = max(h.backlog-c.takes, 0)
	if c.cold {
		h.cold--
	}
	h.lookAtFirst()
}

// lookAtFirst follows a change of the queue: every choice asks for its first call.
func (h *Host) lookAtFirst() {
	if len(h.queue) == 0 {
		h.backlog, h.takes, h.isWhole = 0, 0, false
		return
	}
	first := h.queue[0]
	h.first, h.takes, h.isWhole = first.sent, first.takes, first.whole
	h.backlog = max(h.backlog, h.takes) // sums of fractions are not exact
}

// Lost says that the host has gone or was started anew: its caches and queues are empty,
// and no model is loaded. Calls that are on their way there teach nothing any more.
func (h *Host) Lost() {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	h.epoch++
	h.queue, h.backlog, h.settled, h.others, h.cold, h.told, h.crowd = nil, 0, 0, 0, 0, untold, crowd{}
	for _, i := range h.instances {
		i.clear()
		i.pending, i.waiting, i.theirs, i.decoding, i.misses = 0, 0, 0, 0, 0
		i.cache.isTold = false
		if i.isOrdered() {
			continue
		}
		if i.state = unknown; i.kept != nil {
			i.kept.settles = 0
		}
	}
}

// clear forgets the blocks that the instance is believed to have cached.
func (i *Instance) clear() {
	if i.isIndexed() {
		i.model.index.clear(int(i.position))
	}
}

// isIndexed reports whether the instance still has its place in the index. A removed
// instance does not.
func (i *Instance) isIndexed() bool { return i.model.index.holders[i.position] == i.cache }
