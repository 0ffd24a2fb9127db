package budget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

var errFault = errors.New("fault")

// database is what the journals and the databases of all gateways have: the totals of
// every writer, which survive processes.
type database struct{ rows map[string]quota.Row }

func (d *database) add(writer string, who quota.Subject, w quota.Window, start time.Time, spent Amounts) {
	key := quota.Key{Tenant: who.Tenant, APIKey: who.APIKey, Service: who.Service}
	id := fmt.Sprint(writer, key, w, start.Unix())
	row := d.rows[id]
	row.Writer, row.Key, row.Window, row.Start = writer, key, w, start
	row.Requests, row.Tokens, row.Cost = row.Requests+spent[Requests], row.Tokens+spent[Tokens], row.Cost+spent[Cost]
	d.rows[id] = row
}

// ledger is one process of a gateway: it counts at once and for good, as a journal does.
type ledger struct {
	*database
	writer    string
	recovered []string // the earlier processes of the same gateway
	others    bool     // it shares its database with other gateways
}

func (l *ledger) Edit(quota.Edit)                                     {}
func (l *ledger) Admit(*quota.Ticket, quota.Subject, time.Time) error { return nil }
func (l *ledger) RecoveredWriters() []string                          { return l.recovered }
func (l *ledger) Stats() quota.Stats                                  { return quota.Stats{} }
func (l *ledger) Close(context.Context) error                         { return nil }
func (l *ledger) JournalFailure() *condition.Failure                  { return nil }
func (l *ledger) Totals(_ context.Context, filter quota.Filter) ([]quota.Row, string, error) {
	var rows []quota.Row
	for _, row := range l.rows {
		isKnown := l.others || row.Writer == l.writer || slices.Contains(l.recovered, row.Writer)
		if isKnown && filter.Includes(&row) {
			rows = append(rows, row)
		}
	}
	return rows, l.writer, nil
}

// team is what gateways share, as a plain value that can be away and can lose its data.
type team struct {
	now func() time.Time

	mu    sync.Mutex
	down  bool
	store *tallytest.Model
	lives int
	met   map[string]bool
}

func newTeam(now func() time.Time) *team {
	return &team{now: now, store: tallytest.New(), met: map[string]bool{}}
}

// lose makes the store lose its data.
func (m *team) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.Flush()
	m.lives++
}

func (m *team) setDown(isDown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = isDown
}

// member returns the side of one gateway, which has met the store if that answers.
func (m *team) member(id string) *member {
	c := &member{team: m, id: id, known: 1, life: m.lives}
	c.beat()
	c.settled = time.Time{}
	return c
}

// member is a tally.Pool whose beats a test makes.
type member struct {
	*team
	id      string
	known   int
	away    bool
	life    int
	settled time.Time
	changes func() string
}

// settleTime is how long gateways have to tell again what they know.
const settleTime = 2 * tally.SettleTime

// beat does what the pool does by itself, several times a second.
func (c *member) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		c.away = true
		return
	}
	if c.away || c.life != c.lives {
		c.settled = c.now().Add(settleTime)
	}
	c.away, c.life = false, c.lives
	c.met[c.id] = true
	c.known = max(c.known, len(c.met))
}

func (c *member) Meet(context.Context) { c.beat() }

func (c *member) Tell(_ context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away = c.away || c.down; c.away {
		return nil, errFault
	}
	return c.store.Tell(sheets, isNews), nil
}

func (c *member) IsAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

func (c *member) IsSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.away && !c.now().Before(c.settled)
}

func (c *member) Members() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = max(c.known, len(c.met))
	return c.known
}

func (c *member) Changes() string {
	if c.changes == nil {
		return "" // not known
	}
	return c.changes()
}

func (c *member) Stats() tally.Stats { return tally.Stats{} }

// clock is the time, which books also ask for in goroutines of their own.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world is some gateways, what they share, and the truth.
type world struct {
	t       *rapid.T
	clock   clock
	data    *database
	store   *team // nil where the gateways share nothing
	keys    *seal.Keys
	budgets Budgets
	nodes   []*node
	away    bool // the store does not answer
	started int
	spent   map[place]Amounts
	// beyond is how much requests cost more than they had reserved, and blind what was
	// reserved by gateways that did not know of each other.
	beyond map[place]Amounts
}

type node struct {
	book      *Book
	shared    *member
	account   *Account
	ledger    *ledger
	processes []string
	open      []*request
}

type request struct {
	charge *Charge
	at     time.Time
	want   Amounts
}

var subject = KeySubject("k")

// noPause takes no time.
func noPause(context.Context, time.Duration) error { return nil }

func (w *world) start(n *node) {
	w.started++
	n.ledger = &ledger{database: w.data, writer: fmt.Sprintf("w%d", w.started), recovered: append([]string(nil), n.processes...)}
	n.processes = append(n.processes, n.ledger.writer)
	options := Options{Ledger: n.ledger, FailOpen: true, Degrade: true, Timeout: time.Minute, Now: w.clock.now, Keys: w.keys, manual: true, pause: noPause}
	if w.store != nil {
		n.shared = w.store.member(fmt.Sprintf("%p", n))
		options.Shared = n.shared
	}
	n.book = New(options)
	n.account = n.book.Open("key/k", subject, w.budgets)
	n.open = nil
	n.exchange()
}

// exchange makes the beat of a second.
func (n *node) exchange() {
	if n.shared != nil {
		n.shared.beat()
	}
	n.book.exchange(context.Background())
}

func (w *world) pick(rt *rapid.T) *node { return rapid.SampledFrom(w.nodes).Draw(rt, "gateway") }

func (w *world) reserve(rt *rapid.T) {
	n := w.pick(rt)
	most := rapid.SampledFrom([]int64{3, 20, 300}).Draw(rt, "most")
	want := Amounts{1, rapid.Int64Range(0, most).Draw(rt, "tokens"), rapid.Int64Range(0, most).Draw(rt, "cost")}
	r := &request{charge: new(Charge), at: w.clock.now(), want: want}
	refused, err := r.charge.Reserve(context.Background(), [2]*Account{n.account}, Exactly(want), w.clock.now())
	if err != nil {
		rt.Fatal(err)
	}
	if refused != nil {
		w.checkRefusal(rt, n, refused, want)
		return
	}
	n.open = append(n.open, r)
}

func (w *world) add(window quota.Window, at time.Time, spent Amounts) {
	p := place{"key/k", window, window.Start(at).Unix()}
	w.spent[p] = w.spent[p].plus(spent)
}

// checkRefusal checks that one gateway alone refuses only what does not fit, and that
// several say that a budget is used up only when it is.
func (w *world) checkRefusal(rt *rapid.T, n *node, r *Refusal, want Amounts) {
	spent := w.spent[place{"key/k", r.Window, r.Window.Start(w.clock.now()).Unix()}][r.Unit]
	leavesRoom := want[r.Unit] <= r.Limit-spent
	if !r.Held && leavesRoom && !w.away {
		rt.Fatalf("used up with %+v, although %d are spent and %v wanted", r, spent, want)
	}
	if len(w.nodes) > 1 {
		return
	}
	var reserved int64
	for _, one := range n.open {
		if r.Window.Start(one.at).Equal(r.Window.Start(w.clock.now())) {
			reserved += one.want[r.Unit]
		}
	}
	if spent != r.Used || reserved != r.Reserved || r.Held != leavesRoom || want[r.Unit] <= r.Limit-spent-reserved {
		rt.Fatalf("refused with %+v, although %d are spent, %d reserved and %v wanted", r, spent, reserved, want)
	}
}

// takeOpen takes one of the requests that run, of which there is at least one.
func (n *node) takeOpen(rt *rapid.T) *request {
	i := rapid.IntRange(0, len(n.open)-1).Draw(rt, "which")
	r := n.open[i]
	n.open = append(n.open[:i], n.open[i+1:]...)
	return r
}

// giveBack ends a request that did not reach its backend.
func (w *world) giveBack(rt *rapid.T) {
	if n := w.pick(rt); len(n.open) > 0 {
		n.takeOpen(rt).charge.GiveBack()
	}
}

func (w *world) settle(rt *rapid.T) {
	n := w.pick(rt)
	if len(n.open) == 0 {
		return
	}
	r := n.takeOpen(rt)
	tokens, cost := rapid.Int64Range(0, 300).Draw(rt, "used"), rapid.Int64Range(0, 300).Draw(rt, "paid")
	if rapid.IntRange(0, 3).Draw(rt, "more") > 0 { // mostly no more than was reserved
		tokens, cost = min(tokens, r.want[Tokens]), min(cost, r.want[Cost])
	}
	r.charge.Settle(schema.Usage{Total: tokens}, cost)
	for range rapid.IntRange(0, 1).Draw(rt, "again") {
		r.charge.Settle(schema.Usage{Total: tokens}, cost)
		r.charge.GiveBack()
	}
	spent := Amounts{1, tokens, cost}
	for _, window := range windows {
		w.data.add(n.ledger.writer, subject, window, window.Start(r.at), spent)
		w.add(window, r.at, spent)
		p := place{"key/k", window, window.Start(r.at).Unix()}
		w.beyond[p] = w.beyond[p].plus(spent.minus(r.want).greater(Amounts{}))
	}
}

// check compares what was spent with the budgets: never more than they allow, and what
// requests cost beyond what they had reserved.
func (w *world) check(rt *rapid.T) {
	for p, spent := range w.spent {
		for i, window := range windows {
			if window != p.window {
				continue
			}
			for unit, limit := range w.budgets.all()[i].limits() {
				if limit > 0 && spent[unit] > limit+w.beyond[p][unit] {
					rt.Fatalf("%v: %d of %d are spent, %d of them beyond what was reserved", p, spent[unit], limit, w.beyond[p][unit])
				}
			}
		}
	}
}

// Random histories of requests, crashes, and stores that are away or lose their data keep
// the budgets, in one gateway and in several.
func TestBudgetsHoldInRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			t: rt, clock: clock{at: time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)}, data: &database{map[string]quota.Row{}},
			spent: map[place]Amounts{}, beyond: map[place]Amounts{},
		}
		limit := rapid.SampledFrom([]int64{0, 500, 1000, 2000})
		w.budgets = Budgets{
			Day:   Budget{Requests: rapid.SampledFrom([]int64{0, 3, 20}).Draw(rt, "requests"), Tokens: limit.Draw(rt, "day")},
			Month: Budget{Cost: 1500, Tokens: limit.Draw(rt, "month")}, Total: Budget{Tokens: 4000},
		}
		gateways := rapid.IntRange(1, 3).Draw(rt, "gateways")
		if gateways > 1 {
			w.store = newTeam(w.clock.now)
			if rapid.Bool().Draw(rt, "master key") {
				w.keys, _ = seal.New(masterKey, "")
			}
		}
		for range gateways {
			w.nodes = append(w.nodes, new(node))
		}
		for range 2 { // so that all know how many there are
			for _, n := range w.nodes {
				if n.book == nil {
					w.start(n)
				}
				n.exchange()
			}
		}
		exchange := func() { // twice, so that the first one learns what the last one tells
			for range 2 {
				for _, n := range w.nodes {
					n.exchange()
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"reserve":  w.reserve,
			"reserve2": w.reserve,
			"reserve3": w.reserve,
			"settle":   w.settle,
			"settle2":  w.settle,
			"giveBack": w.giveBack,
			"exchange": func(*rapid.T) { exchange() },
			"clock": func(rt *rapid.T) {
				w.clock.add(rapid.SampledFrom([]time.Duration{time.Minute, 3 * time.Hour, 26 * time.Hour}).Draw(rt, "by"))
				exchange() // there was one every second
			},
			"crash": func(rt *rapid.T) { // requests in flight are lost, and free
				if !w.away {
					w.start(w.pick(rt))
				}
			},
			"outage": func(*rapid.T) {
				if w.store == nil {
					return
				}
				if !w.away {
					exchange() // the last second before it
				}
				w.away = !w.away
				w.store.setDown(w.away)
				exchange()
				if !w.away {
					w.clock.add(settleTime)
					exchange()
				}
			},
			"wipe": func(*rapid.T) {
				if w.store != nil && !w.away {
					exchange() // the second before it, and the one after it
					w.store.lose()
					exchange()
				}
			},
		})
	})
}

func TestABudgetThatIsAddedLaterKeepsWhatWasSpent(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	data := &database{map[string]quota.Row{}}
	book := New(Options{Ledger: &ledger{database: data, writer: "w"}, FailOpen: true, Now: func() time.Time { return now }, manual: true})
	if book.Open("key/k", subject, Budgets{Day: Budget{Tokens: Unlimited}}) != nil || (*Book)(nil).Open("key/k", subject, Budgets{Day: Budget{Tokens: 1}}) != nil {
		t.Error("there is an account without a budget")
	}
	wide := [2]*Account{book.Open("key/k", subject, Budgets{Day: Budget{Tokens: 100}})}
	var charge, more Charge
	if refused, err := charge.Reserve(context.Background(), wide, Exactly(Amounts{1, 60, 0}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	narrow := [2]*Account{book.Open("key/k", subject, Budgets{Day: Budget{Tokens: 70}, Total: Budget{Requests: 1}})}
	refused, err := more.Reserve(context.Background(), narrow, Exactly(Amounts{1, 20, 0}), now)
	if err != nil || refused == nil || refused.Used != 0 || refused.Reserved != 60 || !refused.Held || refused.Limit != 70 || !refused.Reset.Equal(time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("refused with %+v, %v", refused, err)
	}
	charge.GiveBack()
	if refused, _ := more.Reserve(context.Background(), narrow, Exactly(Amounts{1, 20, 0}), now); refused != nil {
		t.Errorf("what was given back is reserved: %+v", refused)
	}
	more.Settle(schema.Usage{Total: 5}, 0) // and so the only request of all time
	if refused, _ := more.Reserve(context.Background(), narrow, Exactly(Amounts{1, 1, 0}), now); refused == nil || refused.Window != quota.BudgetTotal || !refused.Reset.IsZero() || refused.Unit != Requests || refused.Held || refused.Used != 1 {
		t.Errorf("the total is not kept: %+v", refused)
	}
	closed := New(Options{Ledger: &failing{}, Now: func() time.Time { return now }, manual: true})
	if _, err := new(Charge).Reserve(context.Background(), [2]*Account{closed.Open("key/k", subject, Budgets{Day: Budget{Tokens: 1}})}, Exactly(Amounts{1, 1, 0}), now); !errors.Is(err, ErrUnavailable) {
		t.Errorf("budgets that are not known, fail closed: %v", err)
	}
}

// While what is spent would not survive the process, requests pass only where they may pass
// without budgets.
func TestAJournalThatFailsRefusesRequestsThatMustBeCounted(t *testing.T) {
	for _, failOpen := range []bool{true, false} {
		book := New(Options{Ledger: &unwritable{ledger{database: &database{map[string]quota.Row{}}, writer: "w"}}, FailOpen: failOpen, manual: true})
		refused, err := new(Charge).Reserve(context.Background(), [2]*Account{book.Open("key/k", subject, Budgets{Day: Budget{Tokens: 10}})}, Exactly(Amounts{1, 1, 0}), time.Now())
		if refused != nil || errors.Is(err, ErrUnavailable) == failOpen {
			t.Errorf("fail open %v: %+v, %v", failOpen, refused, err)
		}
	}
}

type unwritable struct{ ledger }

func (*unwritable) JournalFailure() *condition.Failure { return &condition.Failure{Reason: "full"} }

type failing struct{ ledger }

func (failing) Totals(context.Context, quota.Filter) ([]quota.Row, string, error) {
	return nil, "w", errFault
}

// A gateway that reaches the store again keeps to its part until the others have had the
// time to tell what they spent meanwhile.
func TestAGatewayKeepsToItsPartUntilAllHaveTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			t: rt, clock: clock{at: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}, data: &database{map[string]quota.Row{}}, budgets: Budgets{Total: Budget{Tokens: 1000}},
			nodes: []*node{new(node), new(node)},
		}
		w.store = newTeam(w.clock.now)
		first, second := w.nodes[0], w.nodes[1]
		w.start(first)
		w.start(second)
		exchange := (*node).exchange
		takes := func(n *node, tokens int64) bool {
			refused, err := new(Charge).Reserve(context.Background(), [2]*Account{n.account}, Exactly(Amounts{1, tokens, 0}), w.clock.now())
			return refused == nil && err == nil
		}
		for range rapid.IntRange(1, 3).Draw(rt, "outages") {
			exchange(first)
			exchange(second)
			exchange(first)
			used := int64(0)
			for _, one := range readAll(w.store.store.Tell([]tally.Sheet{{Name: ":budget:{key/k}:BUDGET_TOTAL:all", IsRead: true}}, false)[0]) {
				used += one.Amounts[Tokens]
			}
			part := (1000 - used) / 2
			w.store.setDown(true)
			exchange(first)
			exchange(second)
			if part > 1 && (!takes(second, part) || takes(second, 1)) {
				rt.Fatalf("the second gateway does not keep to its part of %d", part)
			}
			if rapid.Bool().Draw(rt, "data are lost") {
				w.store.lose()
			}
			w.store.setDown(false)
			for range rapid.IntRange(1, 3).Draw(rt, "exchanges") {
				exchange(first)
				w.clock.add(beat / 2)
			}
			if part > 0 && takes(first, part+1) {
				rt.Fatalf("the first gateway takes more than its part of %d before the second has told", part)
			}
			exchange(second)
			w.clock.add(settleTime)
			exchange(second)
			exchange(first)
			if part > 1 && !takes(first, min(3, part)) {
				rt.Fatal("what is left cannot be used after all have told")
			}
		}
	})
}

// gathering fails all that is told at once when so many wait for an answer.
type gathering struct {
	*member
	missing atomic.Int64
	all     chan struct{}
}

func (g *gathering) Tell(context.Context, []tally.Sheet, bool) ([]map[string]string, error) {
	if g.missing.Add(-1) == 0 {
		close(g.all)
	}
	<-g.all
	return nil, errFault
}

// Requests that wait for the store when it goes away are in the share of the gateway, as
// later ones are: the store has confirmed none of them. Those that the share has no room
// for leave it to the others.
func TestRequestsThatWaitWhenTheStoreGoesAwayAreInTheShare(t *testing.T) {
	t.Parallel()
	const waiting, gateways, share = 12, 3, 4
	store := &gathering{member: newTeam(time.Now).member("w"), all: make(chan struct{})}
	store.missing.Store(waiting)
	store.known = gateways
	book := New(Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, Degrade: true, Timeout: time.Hour, Shared: store, manual: true,
	})
	account := book.Open("key/k", KeySubject("k"), Budgets{Total: Budget{Requests: gateways * share}})
	var passed atomic.Int64
	var running sync.WaitGroup
	for range waiting {
		running.Go(func() {
			if refused, err := new(Charge).Reserve(context.Background(), [2]*Account{account}, Exactly(Amounts{1, 0, 0}), time.Now()); refused == nil && err == nil {
				passed.Add(1)
			}
		})
	}
	running.Wait()
	if passed.Load() != share {
		t.Errorf("%d of %d requests passed, want %d", passed.Load(), waiting, share)
	}
}

// The first request does not come before the store is open, however long that takes: it is
// neither refused nor counted as if the gateway were alone.
func TestTheFirstRequestFindsTheStoreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{newTeam(time.Now).member("w")}
		store.team.member("another gateway")
		store.away = true
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, Timeout: 50 * time.Millisecond, ReadEvery: time.Minute, Shared: store,
		})
		defer func() { _ = book.Close(t.Context()) }()
		account := book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}})
		if refused, err := new(Charge).Reserve(context.Background(), [2]*Account{account}, Exactly(Amounts{1, 10, 0}), time.Now()); refused != nil || err != nil {
			t.Errorf("refused with %+v, %v", refused, err)
		}
		if store.IsAway() || store.Members() != 2 {
			t.Errorf("the store is away: %v, gateways: %d", store.IsAway(), store.Members())
		}
	})
}

// late takes its time to be met.
type late struct{ *member }

func (l *late) Meet(context.Context) {
	<-time.After(500 * time.Millisecond)
	l.beat()
}

// What a process had reserved that was killed before it counted anything is free when the
// next one of the gateway is there, for the other gateways as well.
func TestReservationsOfAKilledProcessAreFree(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	start := func(writer string, data *durable.Dir) *Account {
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: writer}, FailOpen: true, Timeout: time.Minute, Now: store.now,
			Shared: store.member(writer), Data: data, manual: true, pause: noPause,
		})
		account := book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}})
		book.exchange(t.Context())
		return account
	}
	data := make([]*durable.Dir, 2)
	for i := range data {
		var err error
		if data[i], err = durable.Open(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	other := start("other", data[1])
	for round, writer := range []string{"first", "second", "third"} { // each is killed with its request
		if refused, err := new(Charge).Reserve(t.Context(), [2]*Account{start(writer, data[0])}, Exactly(Amounts{1, 70, 0}), now); refused != nil || err != nil {
			t.Fatalf("round %d: %+v, %v", round, refused, err)
		}
	}
	other.book.exchange(t.Context())
	if use := other.book.Uses()[0]; use.Used != 0 || use.Reserved != 70 {
		t.Errorf("%+v", use)
	}
	if names, err := data[0].Read(processesFile); string(names) != "first\nsecond\nthird\n" {
		t.Errorf("remembered are %q, %v", names, err)
	}
}

// That the name of a process cannot be remembered is logged, and budgets hold without it.
func TestProcessThatCannotBeRememberedIsTold(t *testing.T) {
	data, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Write(processesFile, []byte("first\n")); err != nil {
		t.Fatal(err)
	}
	data.Before = func(durable.Step) error { return errors.New("fault on purpose") }
	var log bytes.Buffer
	book := New(Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "second"}, Timeout: time.Minute, Data: data, manual: true, pause: noPause,
		Shared: newTeam(time.Now).member("second"),
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	account := book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}})
	book.exchange(t.Context())
	if !strings.Contains(log.String(), "cannot be remembered") || !strings.Contains(log.String(), "fault on purpose") {
		t.Errorf("logged %s", log.String())
	}
	if names, err := data.Read(processesFile); string(names) != "first\n" {
		t.Errorf("remembered are %q, %v", names, err)
	}
	if refused, err := new(Charge).Reserve(t.Context(), [2]*Account{account}, Exactly(Amounts{1, 70, 0}), time.Now()); refused != nil || err != nil {
		t.Errorf("%+v, %v", refused, err)
	}
}

// A gateway that is not there any more says no more what became of its reservations: they
// count as used, so that nobody waits for them.
func TestReservationsOfAGatewayThatIsGoneAreUsed(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	start := func(writer string) *Account {
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: writer}, FailOpen: true, Timeout: time.Minute, Now: store.now,
			Shared: store.member(writer), manual: true, pause: noPause,
		})
		return book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}})
	}
	gone, here := start("gone"), start("here")
	for _, account := range []*Account{gone, here} {
		account.book.exchange(t.Context())
	}
	if refused, err := new(Charge).Reserve(t.Context(), [2]*Account{gone}, Exactly(Amounts{1, 70, 0}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	for _, isGone := range []bool{false, true} {
		refused, err := new(Charge).Reserve(t.Context(), [2]*Account{here}, Exactly(Amounts{1, 40, 0}), now)
		if err != nil || refused == nil || refused.Held == isGone || refused.Used+refused.Reserved != 70 || (refused.Used == 70) != isGone {
			t.Errorf("gone %v: %+v, %v", isGone, refused, err)
		}
		now = now.Add(presence)
		here.book.exchange(t.Context())
	}
}

// While nobody tells anything new, gateways leave the store alone; what one of them tells is
// known to the others with their next exchange.
func TestGatewaysWithoutNewsLeaveTheStoreAlone(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	var accounts []*Account
	for _, writer := range []string{"a", "b"} {
		shared := store.member(writer)
		shared.changes = func() string { return fmt.Sprint("epoch ", store.lives, store.store.News()) }
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: writer}, FailOpen: true, Timeout: time.Minute, Now: store.now,
			Shared: shared, manual: true, pause: noPause,
		})
		accounts = append(accounts, book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}}))
	}
	beats := func(count int) int {
		before := store.store.Told()
		for range count {
			now = now.Add(beat)
			for _, account := range accounts {
				account.book.exchange(t.Context())
			}
		}
		return store.store.Told() - before
	}
	beats(4)
	if n := beats(30); n != 0 {
		t.Errorf("%d commitments without news", n)
	}
	var charge Charge
	if refused, err := charge.Reserve(t.Context(), [2]*Account{accounts[0]}, Exactly(Amounts{1, 40, 0}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	charge.Settle(schema.Usage{Total: 30}, 0)
	if n := beats(1); n == 0 || accounts[1].book.Uses()[0].Used != 30 {
		t.Errorf("%d commitments, and %+v is known", n, accounts[1].book.Uses()[0])
	}
	beats(3)
	if n := beats(30); n != 0 {
		t.Errorf("%d commitments after the news", n)
	}
	store.lose()
	if n := beats(1); n == 0 {
		t.Errorf("%d commitments after the data were lost", n)
	}
}

// A gateway asks before it says that a budget is used up, if it has not heard of the store
// for a beat: what another one had spent may be known better meanwhile.
func TestUsedUpIsAskedOnceMore(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	book := New(Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Timeout: time.Minute, Now: store.now,
		Shared: store.member("w"), manual: true, pause: noPause,
	})
	account := [2]*Account{book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}})}
	book.exchange(t.Context())
	var charge Charge
	if refused, err := charge.Reserve(t.Context(), account, Exactly(Amounts{1, 100, 0}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	charge.Settle(schema.Usage{Total: 100}, 0)
	for _, wait := range []time.Duration{0, beat, 0, beat} {
		now = now.Add(wait)
		before := store.store.Told()
		refused, err := new(Charge).Reserve(t.Context(), account, Exactly(Amounts{1, 1, 0}), now)
		if err != nil || refused == nil || refused.Held {
			t.Errorf("%+v, %v", refused, err)
		}
		if asked := store.store.Told() > before; asked != (wait > 0) {
			t.Errorf("asked %t, %v after the last answer", asked, wait)
		}
	}
}

// What is reserved beyond what can be counted does not take with it, when it is given back, what
// others have reserved.
func TestReservationsBeyondWhatCanBeCounted(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	book := New(Options{Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Now: func() time.Time { return now }, manual: true})
	accounts := [2]*Account{book.Open("key/k", subject, Budgets{Day: Budget{Tokens: 100}})}
	var charges [3]Charge
	for i, cost := range []int64{7, math.MaxInt64, 9} {
		if refused, err := charges[i].Reserve(context.Background(), accounts, Exactly(Amounts{1, 1, cost}), now); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
	}
	accounts[0] = book.Open("key/k", subject, Budgets{Day: Budget{Tokens: 100, Cost: 1000}})
	reserved := func() int64 {
		for _, use := range book.Uses() {
			if use.Unit == Cost {
				return use.Reserved
			}
		}
		return -1
	}
	for _, i := range []int{1, 0, 2} {
		charges[i].GiveBack()
		if left := reserved(); left < 0 {
			t.Errorf("%d are reserved", left)
		}
	}
	if left := reserved(); left != 0 {
		t.Errorf("%d are reserved when nothing runs", left)
	}
}
