package fleet

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

const (
	// MaxMessage is the limit of bytes in a message, and of bytes that a gateway sends in a
	// second.
	MaxMessage = 16 << 10
	// silence is the number of seconds after which the pending calls of a silent
	// gateway are forgotten.
	silence = 5.0
	// maxListed is the limit of instances in a message, with 16 bytes for each at most.
	maxListed = 512
)

// Export returns news for other gateways: the prompts that were sent since the last
// Export, and the work that is pending now; nil where there is neither, and there was
// nothing pending before. It has at most 16 KB for each second since then; the oldest
// prompts are left out where that is not enough, and counted.
func (f *Fleet) Export(now time.Time) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.clock(now)
	f.forgetSilent(at)
	budget := int(MaxMessage * min(max(at-f.news.since, 0), 1))
	message, numbers, isPending := f.exportPending()
	if len(numbers) == 0 && !f.news.wasPending {
		f.news.reset(at)
		return nil
	}
	f.news.wasPending = isPending
	told := 0
	var before []Block
	for _, s := range slices.Backward(f.news.sendings) {
		number, isListed := numbers[s.instance]
		if !isListed {
			continue
		}
		prompt := f.news.blocks[s.start:s.end]
		length := len(message)
		message = appendPrompt(message, number, prompt, before)
		if len(message) > budget {
			message = message[:length]
			break
		}
		before = prompt
		told++
	}
	f.news.dropped += int64(len(f.news.sendings) - told)
	f.news.reset(at)
	return message
}

// exportPending begins a message, and returns the number of each instance in it, and
// whether anything is pending at one of them.
func (f *Fleet) exportPending() (message []byte, numbers map[*Instance]int, isPending bool) {
	numbers = map[*Instance]int{}
	var listed []*Instance
	list := func(i *Instance) {
		if _, isListed := numbers[i]; !isListed && len(listed) < maxListed {
			numbers[i] = len(listed)
			listed = append(listed, i)
		}
	}
	for _, s := range slices.Backward(f.news.sendings) {
		list(s.instance)
	}
	for _, h := range f.hosts {
		for _, call := range h.queue {
			list(call.Instance)
		}
		for _, i := range h.instances {
			// The list tells others that the model of this instance is in use.
			if i.kept != nil && (i.kept.busy > 0 || i.kept.own > f.news.since) {
				list(i)
			}
		}
	}
	message = append(message, version)
	message = binary.AppendUvarint(message, uint64(len(listed)))
	for _, i := range listed {
		isPending = isPending || i.waiting > 0
		message = binary.BigEndian.AppendUint64(message, i.id)
		// The finished part of the first call is not subtracted: until the next message,
		// new calls take its place.
		message = binary.AppendUvarint(message, uint64(min(i.pending, mostTokens)))
		message = binary.AppendUvarint(message, uint64(min(i.waiting, mostRequests)))
	}
	return message, numbers, isPending
}

// Dropped returns the number of prompts that were left out of messages to other
// gateways.
func (f *Fleet) Dropped() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.news.dropped
}

// peer holds the last message of another gateway.
type peer struct {
	at      float64
	pending []report
}

// Import takes a message that another gateway exported. Instances that are not known
// here are left out. An error says that the message is malformed; nothing of it is taken
// then.
func (f *Fleet) Import(gateway string, message []byte, now time.Time) error {
	pending, prompts, err := parse(message)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.peers[gateway] = &peer{at: f.clock(now), pending: pending}
	known := f.sumPeers()
	f.heard = f.clock(now)
	for _, r := range pending {
		if i := known[r.instance]; i != nil {
			i.use(f.heard)
		}
	}
	f.mu.Unlock()
	for _, p := range slices.Backward(prompts) {
		if i := known[pending[p.instance].instance]; i != nil {
			// The mutex is free in between: no choice waits for a whole message.
			f.mu.Lock()
			f.hold(i, p.blocks)
			f.mu.Unlock()
		}
	}
	return nil
}

// Alone says that other gateways are not heard any more. It forgets their pending
// work.
func (f *Fleet) Alone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetPeers()
}

func (f *Fleet) forgetPeers() {
	clear(f.peers)
	f.sumPeers()
}

// forgetSilent forgets the pending work of gateways that have told nothing for a
// while.
func (f *Fleet) forgetSilent(now float64) {
	forgot := false
	for name, p := range f.peers {
		if now-p.at > silence {
			delete(f.peers, name)
			forgot = true
		}
	}
	if forgot {
		f.sumPeers()
	}
}

// sumPeers adds up the pending work of other gateways, and returns the instances by
// their identities.
func (f *Fleet) sumPeers() map[uint64]*Instance {
	known := make(map[uint64]*Instance, f.instances)
	for _, h := range f.hosts {
		h.others = 0
		for _, i := range h.instances {
			known[i.id] = i
			i.theirs = 0
		}
	}
	for _, p := range f.peers {
		for _, r := range p.pending {
			if i := known[r.instance]; i != nil {
				i.host.others += r.tokens * i.perToken
				i.theirs += int32(r.calls)
			}
		}
	}
	return known
}

// ExchangeStats are the counts of messages between the gateways about their fleets.
type ExchangeStats struct {
	// IsOn says that there is something to exchange; the rest means nothing otherwise.
	IsOn bool
	// Others is how many other gateways are heard.
	Others int
	// Sent and Received count messages. Foreign counts messages that were made with
	// another secret, Malformed the ones that this release does not read; both are
	// ignored.
	Sent, Received, Foreign, Malformed int64
	// Dropped counts prompts that were left out of messages.
	Dropped int64
	// Failure is why nothing can be exchanged; nil means that it can.
	Failure  *condition.Failure
	Failures int64
}
