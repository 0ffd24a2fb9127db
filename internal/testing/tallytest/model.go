// Package tallytest has, for tests, a store of shared counts that is a plain value: the
// scripts of redistally, written down once more in Go.
package tallytest

import (
	"context"
	"errors"
	"math"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Model is a central store.
type Model struct {
	// Now is the clock; nil means the real one, or the clock of a synctest bubble.
	Now func() time.Time

	mu     sync.Mutex
	mark   *mark
	seen   map[string]int64
	limits map[string]*limit
	sheets map[string]map[string]string
	epochs int
	news   int64
	down   bool
	calls  int
	told   int
}

type mark struct {
	id              string
	since, last, to int64
	isNew           bool
	expected        int
	shared          float64
}

type limit struct {
	epoch    string
	level    float64
	shared   float64
	at, born int64
	marks    map[int64]int64 // by grain
	leases   map[string]lease
}

type lease struct{ granted, open, ends, number int64 }

// New returns an empty store.
func New() *Model {
	return &Model{seen: map[string]int64{}, limits: map[string]*limit{}, sheets: map[string]map[string]string{}}
}

// Flush makes the store forget everything.
func (m *Model) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark, m.seen, m.limits, m.news = nil, map[string]int64{}, map[string]*limit{}, 0
	m.sheets = map[string]map[string]string{}
}

// SetDown makes the store answer no call, or every call again.
func (m *Model) SetDown(isDown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = isDown
}

// Calls returns how many exchanges there were.
func (m *Model) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Member returns the store as one gateway uses it.
func (m *Model) Member(id string) *Member { return &Member{model: m, id: id} }

// Member is one gateway's connection to a Model.
type Member struct {
	model *Model
	id    string
	epoch string

	mu     sync.Mutex
	delay  time.Duration // of each exchange
	cutOff bool
	deaf   bool
}

// SetDelay sets how long each exchange takes.
func (c *Member) SetDelay(delay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = delay
}

// SetCutOff makes the store unreachable for this gateway alone, or reachable again.
func (c *Member) SetCutOff(isCutOff bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutOff = isCutOff
}

// SetDeaf makes answers of the store to this gateway get lost, or arrive again. The store
// carries out the calls all the same.
func (c *Member) SetDeaf(isDeaf bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = isDeaf
}

// hear waits for ever where answers get lost.
func (c *Member) hear(ctx context.Context) error {
	c.mu.Lock()
	isDeaf := c.deaf
	c.mu.Unlock()
	if !isDeaf {
		return nil
	}
	<-ctx.Done()
	return errDown
}

var errDown = errors.New("the store does not answer")

func (c *Member) reach(ctx context.Context) error {
	c.mu.Lock()
	isCutOff, delay := c.cutOff, c.delay
	c.mu.Unlock()
	c.model.mu.Lock()
	isDown := c.model.down
	c.model.mu.Unlock()
	if isCutOff || isDown {
		<-ctx.Done()
		return errDown
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Ping reports whether the store answers.
func (c *Member) Ping(ctx context.Context) error { return errors.Join(c.reach(ctx), c.hear(ctx)) }

// Close does nothing.
func (c *Member) Close() {}

// Leave removes the gateway from the list.
func (c *Member) Leave(ctx context.Context) error {
	if err := c.reach(ctx); err != nil {
		return err
	}
	c.model.mu.Lock()
	defer c.model.mu.Unlock()
	delete(c.model.seen, c.id)
	return nil
}

// Exchange is the script of redistally for permits.
func (c *Member) Exchange(ctx context.Context, members int,
	asks []tally.Ask) (tally.Presence, []tally.Grant, error) {
	if err := c.reach(ctx); err != nil {
		return tally.Presence{}, nil, err
	}
	presence, grants, err := c.model.exchange(c, members, asks)
	return presence, grants, errors.Join(err, c.hear(ctx))
}

func (m *Model) exchange(c *Member, members int, asks []tally.Ask) (tally.Presence, []tally.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	read := time.Now
	if m.Now != nil {
		read = m.Now
	}
	now := read().UnixMicro()
	presence, before, part := m.beat(c, now, members)
	c.epoch, presence.Epoch, presence.Changes = m.mark.id, m.mark.id, m.news
	var grants []tally.Grant
	for i := range asks {
		grant, ok := m.ask(c.id, now, before, part, &asks[i])
		if !ok {
			return presence, nil, errors.New("an exchange that was delayed")
		}
		grants = append(grants, grant)
	}
	return presence, grants, nil
}

func micro(d time.Duration) int64 { return d.Microseconds() }

// beat notes that a gateway is there. It returns the part of the limits for connected
// gateways until now, and the part from now on.
func (m *Model) beat(c *Member, now int64, expected int) (p tally.Presence, before, part float64) {
	var own tally.Presence
	had := len(m.seen) > 0
	for id, at := range m.seen {
		age := now - at
		switch {
		case age > micro(tally.ForgetAfter):
			delete(m.seen, id)
		case id == c.id:
			own.Members = 1
			if age > micro(tally.SilentAfter) {
				own.Silent = 1
			}
		default:
			p.Members++
			if age > micro(tally.SilentAfter) {
				p.Silent++
			}
		}
	}
	m.seen[c.id] = now
	k := m.mark
	if k == nil || c.epoch != "" && c.epoch != k.id && k.isNew {
		m.epochs++
		isNew := k == nil && c.epoch == ""
		k = &mark{id: "epoch" + strconv.Itoa(m.epochs), since: now, last: now, isNew: isNew}
		if !isNew {
			k.expected = expected
		}
		m.mark = k
	}
	if had && now-k.last > micro(tally.SilentAfter) {
		k.to, k.expected, before = now, expected, 1
	} else {
		_, before = k.divide(tally.Presence{Members: p.Members + own.Members, Silent: p.Silent + own.Silent}, now)
		k.shared += before * float64(max(0, now-k.last))
	}
	k.last = max(k.last, now)
	p.Members++
	p, part = k.divide(p, now)
	return p, before, part
}

// divide returns the part of the limits for gateways that are not cut off.
func (k *mark) divide(p tally.Presence, now int64) (tally.Presence, float64) {
	if k.expected > p.Members && now-max(k.since, k.to) < micro(tally.SettleTime) {
		p.Silent += k.expected - p.Members
		p.Members = k.expected
	}
	if p.Members == 0 {
		return p, 1
	}
	return p, float64(p.Members-p.Silent) / float64(p.Members)
}

// isProbation reports whether the store may have lost its data a moment ago.
func (k *mark) isProbation(now int64) bool {
	return k.isNew && now-k.since < micro(tally.ProbationTime)
}

// grant returns how many of the remaining permits are given out.
func (k *mark) grant(a *tally.Ask, left, full float64, now int64) int64 {
	most := float64(a.Want)
	if k.isProbation(now) {
		left -= math.Floor(full / 2)
		most = min(most, float64(a.Need)+max(0, math.Floor((left-full/4)/2)))
	}
	return int64(max(0, min(most, math.Floor(left+1e-6))))
}

func (m *Model) ask(member string, now int64, before, part float64, a *tally.Ask) (tally.Grant, bool) {
	const second = 1e6
	k := m.mark
	capacity, rate, window := float64(a.Capacity), float64(a.Rate), micro(a.Window)
	l := m.limits[a.Name]
	begins := l == nil || l.epoch != k.id
	if begins {
		l = k.newLimit(now)
		m.limits[a.Name] = l
	}
	warmth := func(at int64) float64 {
		if a.WarmUp <= 0 {
			return 1
		}
		return (1 + 2*max(0, min(1, float64(at-l.born)/float64(micro(a.WarmUp))))) / 3
	}
	if begins {
		l.level = capacity * warmth(now)
		if !k.isNew {
			l.level = min(l.level, rate*warmth(now)*part*float64(now-k.since)/second)
		}
	}
	full := max(1, capacity*warmth(now)*part)
	grain := max(1, window/64)
	for at := range l.marks {
		if (at+1)*grain+window <= now {
			delete(l.marks, at)
		}
	}
	spend := func(at, permits int64) {
		if permits > 0 {
			l.marks[at/grain] += permits
		}
	}
	mine, known := l.leases[member]
	mineOpen := mine.open
	if mine.ends <= now {
		mineOpen = 0
	}
	granted, returned := a.Granted, a.Returned
	if a.Epoch != k.id {
		granted, returned = 0, 0
		spend(now, a.Own+mine.open)
	} else {
		if known && a.Number <= mine.number {
			return tally.Grant{}, false
		}
		if known && granted > mine.granted {
			l.level -= float64(granted - mine.granted)
			spend(now, granted-mine.granted)
		}
		granted = max(granted, mine.granted)
		unknown := a.Spent
		for _, one := range a.Times {
			spend(now-micro(one.Ago), one.Permits)
			unknown -= one.Permits
		}
		spend(now, unknown)
		l.takeBack(-a.Spent)
	}
	open := m.openOfOthers(l, member, now, spend)
	var left, retry float64
	if window > 0 {
		var used int64
		for _, permits := range l.marks {
			used += permits
		}
		left = math.Floor(full) - float64(used+open+a.Outstanding)
		if !k.isNew && now-k.since < micro(tally.SettleTime) {
			left = min(left, 0)
		}
		retry = 20000
		if len(l.marks) > 0 {
			retry = float64((oldest(l.marks)+1)*grain + window - now)
		}
	} else {
		l.level += rate * (warmth(l.at) + warmth(now)) / 2 * (k.shared - l.shared) / second
		most := max(1, capacity*warmth(now)*min(before, part))
		l.level = min(l.level, max(0, most-float64(open+mineOpen))) + float64(returned)
		l.level = min(l.level, max(0, full-float64(open+a.Outstanding)))
		left = l.level
	}
	grant := k.grant(a, left, full, now)
	left -= float64(grant)
	if window <= 0 {
		l.level -= float64(grant)
		retry = max(retry, max(0, 1-l.level)*second/max(0.001, rate*warmth(now)*part))
	}
	if k.isProbation(now) {
		if retry = 0; grant < a.Need {
			retry = float64(k.since + micro(tally.ProbationTime) - now)
		}
	}
	l.at, l.shared = now, k.shared
	l.leases[member] = lease{granted + grant, a.Outstanding + grant, now + micro(tally.LeaseTime), a.Number}
	return tally.Grant{
		Epoch: k.id, Granted: granted + grant, Permits: grant, Left: left,
		Capacity: capacity * warmth(now), Rate: rate * warmth(now), Retry: time.Duration(retry) * time.Microsecond,
	}, true
}

// newLimit returns a limit that nobody has used.
func (k *mark) newLimit(now int64) *limit {
	return &limit{
		epoch: k.id, born: now, at: now, shared: k.shared, marks: map[int64]int64{}, leases: map[string]lease{},
	}
}

// openOfOthers returns the permits that other gateways hold. Permits that were held for
// too long count as spent.
func (m *Model) openOfOthers(l *limit, member string, now int64, spend func(at, permits int64)) int64 {
	var open int64
	for id, theirs := range l.leases {
		if id == member {
			continue
		}
		if theirs.open > 0 && theirs.ends <= now {
			spend(theirs.ends, theirs.open)
			theirs.open = 0
			l.leases[id] = theirs
		}
		if _, isThere := m.seen[id]; theirs.open == 0 && !isThere {
			delete(l.leases, id)
		}
		open += theirs.open
	}
	return open
}

// takeBack removes permits from the oldest marks.
func (l *limit) takeBack(permits int64) {
	for permits > 0 && len(l.marks) > 0 {
		first := oldest(l.marks)
		back := min(permits, l.marks[first])
		permits -= back
		if l.marks[first] -= back; l.marks[first] == 0 {
			delete(l.marks, first)
		}
	}
}

func oldest(marks map[int64]int64) int64 {
	var keys []int64
	for key := range marks {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	return keys[0]
}
