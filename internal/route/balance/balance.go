// Package balance picks one instance out of a pool.
package balance

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Balancer picks one of the instances that may be picked. The list is never
// empty and holds instances of one pool in the order of their positions.
type Balancer interface {
	Pick(from []*backend.Instance, asked Asked) *backend.Instance
	// Peek returns the instance that Pick would return, without an effect on the next
	// Pick. It returns nil if the choice is random. With only one instance it never is.
	Peek(from []*backend.Instance, asked Asked) *backend.Instance
}

// Asked holds all that a choice may depend on.
type Asked struct {
	// Client is the address of the caller.
	Client netip.Addr
	// Request is the caller's request. It is nil where nothing is asked yet, and where
	// reading it is not worth its cost because the request may still be refused.
	Request *schema.Request
	// Recalled holds the messages that the gateway adds to the conversation.
	Recalled [][]byte
	// Begun is the beginning of an answer with which an instance is to go on, as a JSON
	// string has it; nil for an answer that begins anew.
	Begun []byte
	// Header holds the headers of the caller.
	Header http.Header
	// Scope is for prompts: those of different scopes are kept apart.
	Scope string
	// Goal is the time that is to be short, and Caller names who asks, where that is the time to
	// the answer.
	Goal   Goal
	Caller string
	Now    time.Time
}

// Carry hands the progress of a balancer over to its successor: an edit of the
// configuration does not start the round anew. The positions say where each instance of
// the new pool was in the old one, -1 for new ones. The scale is the ratio of the total
// weights of the new and the old pool: credit must be scaled, or a negative credit from
// large weights would exclude an instance for very long after the weights were reduced.
// A type that is not named here starts anew; name a new one if it keeps anything
// between picks. State of an instance rather than of the choice belongs into
// backend.State, which outlives edits by itself.
func Carry(to, from Balancer, positions []int, scale float64) {
	switch next := to.(type) {
	case *roundRobin:
		if prev, same := from.(*roundRobin); same {
			next.carry(prev, positions, scale)
		}
	case *leastConnections:
		if prev, same := from.(*leastConnections); same {
			next.round.Store(prev.round.Load())
		}
	case *Soonest:
		if prev, same := from.(*Soonest); same {
			next.unknown.round.Store(prev.unknown.round.Load())
		}
	}
}

func (b *roundRobin) carry(prev *roundRobin, positions []int, scale float64) {
	prev.mu.Lock()
	defer prev.mu.Unlock()
	for position, old := range positions {
		if old >= 0 {
			b.credit[position] = int64(math.Round(float64(prev.credit[old]) * scale))
		}
	}
}

// roundRobin is smooth weighted round robin: in each turn the credit of every
// instance grows by its share, the instance with the most credit is picked, and its
// credit is reduced by the sum of the shares. Weights 5:1:1 give a a b a c a a rather
// than five a in a row.
type roundRobin struct {
	mu     sync.Mutex
	credit []int64 // by the position in the pool
	// shares are the shares of all instances, known after all were there to be picked
	// from. They lie side by side: in a large pool most of the time would be spent on
	// fetching one after the other from memory.
	shares []int64
}

// sharesOfAll returns the shares by position if the list is the whole pool, else nil.
func (b *roundRobin) sharesOfAll(from []*backend.Instance) []int64 {
	if len(from) != len(b.credit) {
		return nil
	}
	if b.shares == nil {
		b.shares = make([]int64, len(from))
		for n, i := range from {
			b.shares[n] = i.Share
		}
	}
	return b.shares
}

func (b *roundRobin) Pick(from []*backend.Instance, _ Asked) *backend.Instance {
	if len(from) == 1 {
		return from[0]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if shares := b.sharesOfAll(from); shares != nil {
		return from[b.pickFromAll(shares)]
	}
	var best *backend.Instance
	var total int64
	for _, i := range from {
		total += i.Share
		b.credit[i.Position] += i.Share
		if best == nil || b.credit[i.Position] > b.credit[best.Position] {
			best = i
		}
	}
	b.credit[best.Position] -= total
	return best
}

// pickFromAll is Pick where the whole pool is there to be picked from.
func (b *roundRobin) pickFromAll(shares []int64) (best int) {
	var total, highest int64
	for position, share := range shares {
		total += share
		credit := b.credit[position] + share
		b.credit[position] = credit
		if position == 0 || credit > highest {
			best, highest = position, credit
		}
	}
	b.credit[best] -= total
	return best
}

func (b *roundRobin) Peek(from []*backend.Instance, _ Asked) *backend.Instance {
	b.mu.Lock()
	defer b.mu.Unlock()
	if shares := b.sharesOfAll(from); shares != nil {
		best := 0
		for position, share := range shares {
			if b.credit[position]+share > b.credit[best]+shares[best] {
				best = position
			}
		}
		return from[best]
	}
	best := from[0]
	for _, i := range from[1:] {
		if b.credit[i.Position]+i.Share > b.credit[best.Position]+best.Share {
			best = i
		}
	}
	return best
}

// weightedRandom picks with a probability in proportion to the weight.
type weightedRandom struct{}

func (weightedRandom) Pick(from []*backend.Instance, _ Asked) *backend.Instance {
	var total int64
	for _, i := range from {
		total += i.Share
	}
	at := rand.Int64N(total)
	n := 0
	for ; at >= from[n].Share; n++ {
		at -= from[n].Share
	}
	return from[n]
}

func (weightedRandom) Peek(from []*backend.Instance, _ Asked) *backend.Instance {
	if len(from) == 1 {
		return from[0]
	}
	return nil
}

// leastConnections picks the instance with the fewest calls in flight for its
// weight. Ties go round: idle instances share the work.
type leastConnections struct{ round atomic.Uint64 }

func (b *leastConnections) Pick(from []*backend.Instance, _ Asked) *backend.Instance {
	return fewest(from, b.round.Add(1))
}

func (b *leastConnections) Peek(from []*backend.Instance, _ Asked) *backend.Instance {
	return fewest(from, b.round.Load()+1)
}

func fewest(from []*backend.Instance, round uint64) *backend.Instance {
	at := int(round % uint64(len(from)))
	best := from[at]
	lowest := best.InFlight()
	// An instance without calls cannot be outdone. A pool with more instances than
	// calls is not walked to its end.
	for n := 1; n < len(from) && lowest > 0; n++ {
		if at++; at == len(from) {
			at = 0
		}
		i := from[at]
		// Compared crosswise: a/x < b/y without division.
		if own := i.InFlight(); own*best.Share < lowest*i.Share {
			best, lowest = i, own
		}
	}
	return best
}

// rendezvous is weighted rendezvous hashing: the instance with the highest score for
// a client, a hash of both, is picked. An edit moves only the clients of the
// instances that it changed.
type rendezvous struct {
	size int // of the pool
	// known holds the picks for clients from the whole pool; see Pick.
	known []atomic.Pointer[affinity]
}

// affinity is the pick for a client from a whole pool.
type affinity struct {
	client netip.Addr
	picked *backend.Instance
}

const (
	// maxWalkedPool is the size up to which a pool is walked for every request: that is
	// quicker than remembering.
	maxWalkedPool = 8
	// maxRememberedClients is the limit of clients with a remembered pick.
	maxRememberedClients = 256
)

func newRendezvous(size int) *rendezvous {
	b := &rendezvous{size: size}
	if size > maxWalkedPool {
		b.known = make([]atomic.Pointer[affinity], maxRememberedClients)
	}
	return b
}

// Pick remembers its picks from the whole pool, which does not change: a balancer
// serves one pool of one configuration.
func (b *rendezvous) Pick(from []*backend.Instance, asked Asked) *backend.Instance {
	client := asked.Client
	if b.known == nil || len(from) != b.size {
		return highestScore(from, client)
	}
	address := client.As16()
	hash := mix(binary.BigEndian.Uint64(address[8:]) ^ binary.BigEndian.Uint64(address[:8]))
	slot := &b.known[hash%maxRememberedClients]
	if known := slot.Load(); known != nil && known.client == client {
		return known.picked
	}
	picked := highestScore(from, client)
	slot.Store(&affinity{client, picked})
	return picked
}

// highestScore returns the instance with the highest score for a client.
func highestScore(from []*backend.Instance, client netip.Addr) *backend.Instance {
	address := client.As16()
	seed := mix(binary.BigEndian.Uint64(address[:8])) ^ binary.BigEndian.Uint64(address[8:])
	best, highest := from[0], score(seed, from[0])
	for _, i := range from[1:] {
		if u := score(seed, i); scoresHigher(u, i.Share, highest, best.Share) {
			best, highest = i, u
		}
	}
	return best
}

// score returns the score of an instance for a client, uniform in [0,1).
func score(seed uint64, i *backend.Instance) float64 {
	return float64(mix(seed^i.Hash)>>11) / (1 << 53)
}

// scoresHigher compares two scores by their weights: -w/ln(u) is highest for an
// instance with a probability in proportion to its weight.
func scoresHigher(u float64, share int64, v float64, other int64) bool {
	if share == other {
		return u > v // the logarithm changes nothing and takes its time
	}
	return -float64(share)/math.Log(u) > -float64(other)/math.Log(v)
}

// Peek returns the instance that Pick would return. Remembering it changes no
// choice.
func (b *rendezvous) Peek(from []*backend.Instance, asked Asked) *backend.Instance {
	return b.Pick(from, asked)
}

// mix spreads the bits of a number over all of its places. It is the same in every
// process: several gateways send a client to the same instance.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Strategy is the rule by which an instance is picked.
type Strategy uint8

// The strategies. The zero value is the default.
const (
	RoundRobin Strategy = iota
	Random
	LeastConnections
	IPHash
	LeastTime

	strategyCount = iota // new strategies come before it
)

// strategies has a row for each strategy: its name with underscores, and the
// function that makes a balancer for a pool of the given size.
var strategies = [strategyCount]struct {
	name string
	make func(size int) Balancer
}{
	RoundRobin:       {"round_robin", func(size int) Balancer { return &roundRobin{credit: make([]int64, size)} }},
	Random:           {"random", func(int) Balancer { return weightedRandom{} }},
	LeastConnections: {"least_connections", func(int) Balancer { return &leastConnections{} }},
	IPHash:           {"ip_hash", func(size int) Balancer { return newRendezvous(size) }},
	LeastTime:        {"least_time", func(size int) Balancer { return &Soonest{size: size} }},
}

// New returns a balancer for a pool of the given size.
func New(strategy Strategy, size int) Balancer { return strategies[strategy].make(size) }

// Names returns the name of every strategy.
func (Strategy) Names() []string {
	names := make([]string, 0, strategyCount)
	for _, row := range strategies {
		names = append(names, row.name)
	}
	return names
}

// Valid reports whether s is one of the strategies.
func (s Strategy) Valid() bool { return int(s) < strategyCount }

// String returns the name with underscores.
func (s Strategy) String() string {
	if !s.Valid() {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategies[s].name
}

// MarshalText writes the name with underscores.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any case, with hyphens or underscores.
func (s *Strategy) UnmarshalText(text []byte) error {
	return schema.ReadName(s, "strategy", string(text), s.Names())
}
