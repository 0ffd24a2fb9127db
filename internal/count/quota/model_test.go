package quota

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// counted is what a plain reader of the traffic would have counted.
type counted struct {
	requests, tokens int64
	detail           Totals
}

type place struct {
	key    Key
	window Window
	start  int64
}

// world is two gateways, the stores that they share, and the truth.
type world struct {
	t       *rapid.T
	now     time.Time
	sql     *MemorySnapshots
	redis   *MemoryShared // nil when counting is local
	nodes   []*node
	truth   map[place]counted
	settled Settings
	// wentBack says that the clock has: what the shared counter was spared,
	// because its window was long over, may be missing until everything is
	// pushed again. Reads find it in the database.
	wentBack bool
}

// node is one gateway with a disk of its own.
type node struct {
	*Ledger
	disk *memoryDisk
	open []admission
}

type admission struct {
	ticket *Ticket
	places []place
}

func (w *world) start(d *memoryDisk) *node {
	n := &node{disk: d}
	options := Options{
		OpenSnapshots: func(context.Context) (Snapshots, error) {
			if w.sql.Down {
				return nil, errFault
			}
			return w.sql, nil
		},
		Now: func() time.Time { return w.now }, disk: d, manual: true,
	}
	if w.redis != nil {
		options.Shared = w.redis
	}
	n.Ledger = New(w.settled, options)
	return n
}

var modelKeys = []Subject{
	{Tenant: "acme", APIKey: "team-a", User: []byte("ann"), Service: schema.Chat, Model: "m"},
	{Tenant: "acme", APIKey: "team-a", User: []byte("bob"), Service: schema.Chat, Model: "m"},
	{Service: schema.Embedding, Model: "e"},
}

// TestLedgerEqualsAPlainCount runs random histories of traffic, faults, crashes
// and changes, and compares the ledger with a plain count of the same traffic.
func TestLedgerEqualsAPlainCount(t *testing.T) {
	if histories := flag.Lookup("rapid.checks"); histories.Value.String() == histories.DefValue {
		_ = histories.Value.Set("500") // make test-long asks for more
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rt, now: time.Date(2026, 1, 31, 23, 58, 30, 0, time.UTC), sql: new(MemorySnapshots), truth: map[place]counted{}}
		w.settled = DefaultSettings()
		w.settled.Enabled = true
		if rapid.Bool().Draw(rt, "distributed") {
			w.redis = NewShared()
			w.redis.Spread = rapid.Bool().Draw(rt, "spread")
			w.settled.Distributed.Enabled = true
			w.settled.Distributed.DegradeToLocal = rapid.Bool().Draw(rt, "degradeToLocal")
			w.settled.Distributed.Timeout = Timeout(time.Second)
		}
		w.nodes = []*node{w.start(newMemoryDisk()), w.start(newMemoryDisk())}
		rt.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) {},
			"admit":   w.admit,
			"admit2":  w.admit,
			"settle":  w.settle,
			"settle2": w.settle,
			"flush":   func(rt *rapid.T) { _ = w.pick(rt).flushNow() },
			"share":   func(rt *rapid.T) { w.pick(rt).share() },
			"crash":   w.crash,
			"stop":    w.stop,
			"disk":    w.breakDisk,
			"sql": func(rt *rapid.T) {
				w.sql.Down, w.sql.Mute = rapid.Bool().Draw(rt, "down"), rapid.Bool().Draw(rt, "mute")
			},
			"redis":    w.breakRedis,
			"clock":    w.jump,
			"toggle":   w.toggle,
			"windows":  w.editWindows,
			"failOpen": func(rt *rapid.T) { on := rapid.Bool().Draw(rt, "open"); w.pick(rt).Edit(Edit{FailOpen: &on}) },
		})
		w.check()
	})
}

func (w *world) pick(rt *rapid.T) *node { return w.nodes[rapid.IntRange(0, 1).Draw(rt, "node")] }

func (w *world) admit(rt *rapid.T) {
	n := w.pick(rt)
	who := modelKeys[rapid.IntRange(0, len(modelKeys)-1).Draw(rt, "key")]
	key := who.key()
	who.User = slices.Clone(who.User)
	on := n.active.Load()
	ticket := new(Ticket)
	err := n.Admit(ticket, who, w.now)
	clear(who.User) // the request's memory is used again
	if on == nil || err != nil {
		if err != nil && (!errors.Is(err, ErrUnavailable) || on.failOpen) {
			rt.Fatalf("not admitted: %v", err)
		}
		if *ticket != (Ticket{}) {
			rt.Fatal("a request that was not counted has a ticket")
		}
		return
	}
	a := admission{ticket: ticket}
	for _, window := range Windows() {
		if on.windows[window] {
			p := place{key: key, window: window, start: window.startOf(w.now.Unix())}
			a.places = append(a.places, p)
			c := w.truth[p]
			c.requests++
			w.truth[p] = c
		}
	}
	n.open = append(n.open, a)
}

func (w *world) settle(rt *rapid.T) {
	n := w.pick(rt)
	if len(n.open) == 0 {
		return
	}
	i := rapid.IntRange(0, len(n.open)-1).Draw(rt, "which")
	usage := schema.Usage{Known: rapid.Bool().Draw(rt, "known"), Total: rapid.Int64Range(0, 1000).Draw(rt, "tokens")}
	usage.Prompt = rapid.Int64Range(0, usage.Total).Draw(rt, "prompt")
	usage.Completion = usage.Total - usage.Prompt
	w.settleOne(n, i, usage, rapid.SampledFrom([]int64{0, 1, 7_000_000, 1 << 55}).Draw(rt, "cost"), rapid.IntRange(1, 2).Draw(rt, "times"))
}

func (w *world) settleOne(n *node, i int, usage schema.Usage, cost int64, times int) {
	a := n.open[i]
	n.open = slices.Delete(n.open, i, i+1)
	for range times {
		a.ticket.SettleCost(usage, cost)
	}
	if !usage.Known {
		usage = schema.Usage{}
	}
	for _, p := range a.places {
		c := w.truth[p]
		c.tokens += usage.Total
		c.detail.Add(Totals{Prompt: usage.Prompt, Completion: usage.Completion, Cost: cost})
		w.truth[p] = c
	}
}

// crash kills a gateway and starts it again on what the disk has, perhaps with
// half a record at the end. Requests in flight are counted and cost nothing.
func (w *world) crash(rt *rapid.T) {
	n := w.pick(rt)
	next := n.disk.afterKill()
	if last := next.last(); last != nil && rapid.Bool().Draw(rt, "torn") {
		half := records.Ledger.End(append(records.Ledger.Begin(nil), isUpdate, 1, 2, 3, 4, 5), 0, nil, 0)
		last.data = append(last.data, half[:rapid.IntRange(1, len(half)-1).Draw(rt, "bytes")]...)
	}
	*n = *w.start(next)
}

// stop stops a gateway properly and starts it again.
func (w *world) stop(rt *rapid.T) {
	n := w.pick(rt)
	for len(n.open) > 0 {
		w.settleOne(n, 0, schema.Usage{Known: true, Total: 1}, 3, 1)
	}
	_ = n.Close(context.Background())
	*n = *w.start(n.disk)
}

// breakDisk lets requests come while nothing can be written, and then repairs
// the disk.
func (w *world) breakDisk(rt *rapid.T) {
	n := w.pick(rt)
	s := n.currentSession()
	if s == nil {
		return
	}
	d := n.disk
	switch rapid.IntRange(0, 2).Draw(rt, "fault") {
	case 0:
		d.failWrite, d.failAfter = true, rapid.IntRange(0, 20).Draw(rt, "bytes")
	case 1:
		d.failSync = true
		if s.journal.syncAll() != nil {
			s.journalState.setError(errFault)
		}
	case 2:
		d.failCreate = true
		_ = n.flushNow()
	}
	for range rapid.IntRange(0, 3).Draw(rt, "requests") {
		w.admit(rt)
		w.settle(rt)
	}
	d.failWrite, d.failSync, d.failCreate = false, false, false
	if s.journal.err() != nil {
		s.repair()
	}
	if reason := s.journalState.reason().String(); s.journal.err() != nil {
		rt.Fatalf("the journal was not repaired: %s", reason)
	}
}

func (w *world) breakRedis(rt *rapid.T) {
	if w.redis == nil {
		return
	}
	w.redis.Down, w.redis.Mute = rapid.Bool().Draw(rt, "down"), rapid.Bool().Draw(rt, "mute")
	if rapid.Bool().Draw(rt, "wipe") {
		w.redis.Wipe()
	}
}

func (w *world) jump(rt *rapid.T) {
	by := rapid.SampledFrom([]time.Duration{
		time.Second, 40 * time.Second, time.Minute, time.Hour, 26 * time.Hour, 32 * 24 * time.Hour, -30 * time.Second, -2 * time.Hour,
	}).Draw(rt, "by")
	w.now, w.wentBack = w.now.Add(by), w.wentBack || by < 0
}

func (w *world) toggle(rt *rapid.T) {
	n := w.pick(rt)
	on := n.active.Load() == nil
	n.Edit(Edit{Enabled: &on})
	n.settleDown()
}

func (w *world) editWindows(rt *rapid.T) {
	var windows []Window
	for _, window := range Windows() {
		if rapid.Bool().Draw(rt, window.String()) {
			windows = append(windows, window)
		}
	}
	if windows == nil {
		windows = []Window{}
	}
	w.pick(rt).Edit(Edit{Windows: windows})
}

// flushNow is what the session's goroutine does at its ticks.
func (n *node) flushNow() error {
	s := n.currentSession()
	if s == nil {
		return nil
	}
	err := s.flush(context.Background())
	n.settleDown()
	return err
}

// settleDown ends a session that is off and has nothing left to write.
func (n *node) settleDown() {
	s := n.currentSession()
	if s == nil || n.active.Load() != nil || s.flush(context.Background()) != nil || !n.retire(s) {
		return
	}
	_ = s.flush(context.Background())
	_ = s.close(context.Background())
}

func (n *node) share() {
	if s := n.currentSession(); s != nil && s.shared != nil {
		s.shared.tell(context.Background())
	}
}

// check ends all faults and compares what every gateway says, what the database
// has, and what the shared counter has of the open windows, with the truth.
func (w *world) check() {
	w.sql.Down, w.sql.Mute = false, false
	if w.redis != nil {
		w.redis.Down, w.redis.Mute = false, false
	}
	for _, n := range w.nodes {
		for len(n.open) > 0 {
			w.settleOne(n, 0, schema.Usage{Known: true, Total: 7}, 0, 1)
		}
		on := true
		n.Edit(Edit{Enabled: &on, Windows: Windows()})
		if err := n.flushNow(); err != nil {
			w.t.Fatal(err)
		}
	}
	for range 2 {
		for _, n := range w.nodes {
			if h := n.currentSession().shared; h != nil && w.wentBack {
				h.pushedAllAt = time.Time{}
			}
			n.share()
		}
	}
	want := map[place]counted{}
	for p, c := range w.truth {
		want[p] = c
	}
	for i, n := range w.nodes {
		usage, _, err := n.Usage(context.Background(), UsageQuery{From: new(time.Unix(0, 0)), To: new(w.now.AddDate(1, 0, 0))})
		if err != nil {
			w.t.Fatal(err)
		}
		w.equal(fmt.Sprintf("history of gateway %d", i), usage, want)
		usage, _, err = n.Usage(context.Background(), UsageQuery{})
		if err != nil {
			w.t.Fatal(err)
		}
		w.equal(fmt.Sprintf("open windows of gateway %d", i), usage, w.open(want))
	}
	w.equal("database", sum(slices.Collect(maps.Values(w.sql.rows))), want)
	if w.redis != nil {
		w.equal("shared counter", sum(w.redis.Rows(OpenWindows(w.now, Windows()))), w.open(want))
	}
}

// open returns the part of the truth that is about the windows that are open.
func (w *world) open(truth map[place]counted) map[place]counted {
	open := map[place]counted{}
	for p, c := range truth {
		if p.start == p.window.startOf(w.now.Unix()) {
			open[p] = c
		}
	}
	return open
}

func (w *world) equal(what string, usage []Usage, want map[place]counted) {
	got := map[place]counted{}
	for _, u := range usage {
		got[place{u.Key, u.Window, u.Start.Unix()}] = counted{u.Requests, u.Tokens, Totals{Prompt: u.Prompt, Completion: u.Completion, Cost: u.Cost}}
	}
	for p, c := range want {
		if got[p] != c {
			w.t.Fatalf("%s: %v %v %v has %v, want %v", what, p.key, p.window, time.Unix(p.start, 0).UTC(), got[p], c)
		}
	}
	for p, c := range got {
		if _, there := want[p]; !there {
			w.t.Fatalf("%s: %v %v %v has %v, want nothing", what, p.key, p.window, time.Unix(p.start, 0).UTC(), c)
		}
	}
}
