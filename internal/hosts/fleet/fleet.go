package fleet

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/highwayhash"
)

// maxHeld is how many blocks all instances together are believed to hold at most, each an
// equal share of them. With the sets and the tables around them it makes less than 32 MB.
const maxHeld = 384 << 10

// Options configure a fleet.
type Options struct {
	// Secret is shared by the gateways that exchange news. See SetSecret.
	Secret Secret
	// Gateway names this gateway. Gateways with different names break ties differently.
	Gateway string
}

// Fleet is the knowledge of one gateway about the instances that serve its models. All
// methods of it and of its parts may be called at the same time. One mutex guards it: a
// choice has to see all calls that others have just sent, and holds the mutex for a microsecond
// or two. Prompts are read outside of it.
type Fleet struct {
	gateway string
	prompts sync.Pool
	secret  atomic.Pointer[Secret] // changed with mu

	mu        sync.Mutex
	began     time.Time // where the clock of the fleet starts, which counts seconds
	hosts     map[string]*Host
	models    map[string]*model
	spaces    map[string]*space
	asked     uint64 // numbers the models that wait for room
	instances int
	trust     float64   // how far engines are believed, from 0 to mostTrust
	weighed   []weighed // of the choice that is being made
	news      news
	peers     map[string]*peer
	heard     float64 // when one of them told something last
}

// New returns a fleet without instances.
func New(options Options, now time.Time) *Fleet {
	f := &Fleet{
		gateway: options.Gateway,
		began:   now,
		trust:   mostTrust,
		hosts:   map[string]*Host{},
		models:  map[string]*model{},
		spaces:  map[string]*space{},
		peers:   map[string]*peer{},
	}
	f.secret.Store(&options.Secret)
	return f
}

// clock returns the time as the fleet counts it.
func (f *Fleet) clock(now time.Time) float64 { return now.Sub(f.began).Seconds() }

// model is the common part of instances that serve the same model.
type model struct {
	name      string
	index     *index
	instances []*Instance
	times     loadTimes
	pauses    pauses
	lengths   lengths // of answers; empty while nobody asks for the time to them
}

// learned computes anew how fast each instance is, beside all others.
func (m *model) learned() {
	var seconds, tokens float64
	for _, i := range m.instances {
		seconds += i.speed.prefill.seconds
		tokens += i.speed.prefill.units
	}
	for _, i := range m.instances {
		i.perToken = i.speed.among(seconds / tokens)
	}
}

// Instance is one model on one host. Fleet.Choose chooses instances. The fields that
// every choice reads come first, in one line of the processor's cache; the size is a
// multiple of these lines for that.
type Instance struct {
	host     *Host
	model    *model
	perToken float64 // seconds for a token of a prompt
	credit   float64 // breaks ties: see inTurn
	position int32   // in the index
	state    residence
	// countsCached says that an answer has reported cached tokens. Only then a report
	// of none is believed.
	countsCached bool

	id       uint64 // names it to other gateways
	cache    *holder
	speed    speed
	memory   memory
	pending  float64 // tokens of prefill of own calls without a first token yet
	typical  float64 // how many tokens a call has, of the last ones
	waiting  int32   // own calls without a first token yet
	theirs   int32   // calls of other gateways without a first token yet, by their last message
	decoding int32   // own calls that are being answered
	misses   int32   // answers in a row that found nothing cached where blocks were expected
	kept     *kept   // how its model is kept in memory, nil if nobody decides that
	// perOutput is seconds for a token of an answer. With it the size is that of whole cache
	// lines: calls of one must not slow down another.
	perOutput float64
}

// Instance returns the instance of a model on a host, each named by a text of the caller's
// that is the same on all gateways. It is made if it does not exist.
func (f *Fleet) Instance(host, modelName string) *Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	if h == nil {
		h = &Host{fleet: f, name: host, told: untold}
		f.hosts[host] = h
	}
	for _, i := range h.instances {
		if i.model.name == modelName {
			return i
		}
	}
	m := f.models[modelName]
	if m == nil {
		m = &model{name: modelName, index: newIndex(), times: firstTimes}
		f.models[modelName] = m
	}
	i := &Instance{host: h, model: m, speed: newSpeed(), perOutput: firstDecode}
	i.cache = &holder{order: newRecency(), capacity: firstCapacity}
	i.id = identity(f.secret.Load(), host, modelName)
	i.credit = firstCredit(f.gateway, i.id)
	i.position = int32(m.index.add(i.cache))
	h.instances = append(h.instances, i)
	m.instances = append(m.instances, i)
	m.learned()
	f.instances++
	return i
}

// lock locks the fleet of the instance, and returns it with the time on its clock.
func (i *Instance) lock(now time.Time) (*Fleet, float64) {
	i.host.fleet.mu.Lock()
	return i.host.fleet, i.host.fleet.clock(now)
}

// Fleet returns the fleet that the instance belongs to.
func (i *Instance) Fleet() *Fleet { return i.host.fleet }

// Borrow returns an empty prompt with a scope: see Prompt.Reset. Return takes it back.
func (f *Fleet) Borrow(scope string) *Prompt {
	secret := f.secret.Load()
	p, found := f.prompts.Get().(*Prompt)
	if !found || p.secret != secret {
		p = NewPrompt(secret)
	}
	p.Reset(scope)
	return p
}

// Return takes back a prompt that is not used any more.
func (f *Fleet) Return(p *Prompt) { f.prompts.Put(p) }

// Size returns how many instances there are.
func (f *Fleet) Size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.instances
}

// Name returns the name of the host.
func (h *Host) Name() string { return h.name }

// Host returns the host of the instance.
func (i *Instance) Host() *Host { return i.host }

// Model returns the name of the model.
func (i *Instance) Model() string { return i.model.name }

// Remove takes the instance out of the fleet. Calls that it has may go on and end.
func (i *Instance) Remove() {
	f := i.host.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	i.model.index.remove(int(i.position))
	i.model.instances = without(i.model.instances, i)
	i.host.instances = without(i.host.instances, i)
	i.leaveSpaces()
	if len(i.model.instances) > 0 {
		i.model.learned()
	} else {
		delete(f.models, i.model.name)
	}
	if len(i.host.instances) == 0 {
		delete(f.hosts, i.host.name)
	}
	f.instances--
}

func without(all []*Instance, i *Instance) []*Instance {
	return slices.DeleteFunc(all, func(other *Instance) bool { return other == i })
}

// maxBlocks returns how many blocks an instance is believed to hold at most, given how many
// words the set of a block has. Beyond 256 instances the sets take most of the memory, and
// fewer blocks are held.
func (f *Fleet) maxBlocks(words int) int {
	const few, rest = 4, 4 // words, and how many of them the rest of a block takes
	return maxHeld * (few + rest) / (max(words, few) + rest) / max(f.instances, 1)
}

// identity returns the number of an instance in messages between gateways that share
// a secret.
func identity(secret *Secret, host, model string) uint64 {
	return highwayhash.Sum64([]byte(host+"\x00"+model), secret[:])
}
