package budget

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

var runSubject = RunSubject("k", "", "task")

// runWorld is one run at some gateways, and the truth about it.
type runWorld struct {
	world
	limits, raised, all, past Amounts
	lives                     map[*node]time.Time
}

func (w *runWorld) start(n *node) {
	var terms Terms
	began := w.clock.now()
	if n.account != nil { // as a gateway remembers it
		terms, began = n.account.Terms(), n.account.Began()
	}
	w.started++
	n.ledger = &ledger{database: w.data, writer: fmt.Sprintf("w%d", w.started), recovered: slices.Clone(n.processes)}
	n.processes = append(n.processes, n.ledger.writer)
	options := Options{
		Ledger: n.ledger, FailOpen: true, Degrade: true, Timeout: time.Minute, Now: w.clock.now, Keys: w.keys, manual: true, pause: noPause,
		Runs: &Runs{Idle: 24 * time.Hour, GoesOn: func(*quota.Row) bool { return true }},
	}
	if w.store != nil {
		n.shared = w.store.member(fmt.Sprintf("%p", n))
		options.Shared = n.shared
	}
	n.book = New(options)
	if w.lives[n].IsZero() {
		w.lives[n] = began
	}
	n.account = n.book.OpenRun(runSubject, w.lives[n], w.limits)
	n.account.Restore(terms, began)
	n.open = nil
	n.exchange()
}

func (w *runWorld) reserve(rt *rapid.T) {
	n := w.pick(rt)
	most := rapid.SampledFrom([]int64{3, 20, 300}).Draw(rt, "most")
	want := Amounts{1, rapid.Int64Range(0, most).Draw(rt, "tokens"), rapid.Int64Range(0, most).Draw(rt, "cost")}
	r := &request{charge: &Charge{Run: n.account}, at: w.clock.now(), want: want}
	refused, err := r.charge.Reserve(context.Background(), [2]*Account{}, Exactly(want), w.clock.now())
	if err != nil {
		rt.Fatal(err)
	}
	if refused == nil {
		n.open = append(n.open, r)
		return
	}
	limit := w.limits[refused.Unit] + w.raised[refused.Unit]
	if !refused.Held && !w.away && want[refused.Unit] <= limit-w.all[refused.Unit] {
		rt.Fatalf("used up with %+v, although %v are spent of %d and %v wanted", refused, w.all, limit, want)
	}
}

func (w *runWorld) settle(rt *rapid.T) {
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
	spent := Amounts{1, tokens, cost}
	id := fmt.Sprint(n.ledger.writer)
	row := w.data.rows[id]
	row.Writer, row.Window, row.Start = n.ledger.writer, quota.BudgetRun, n.account.run.counted
	row.Key = quota.Key{APIKey: runSubject.APIKey, User: string(runSubject.User)}
	row.Requests, row.Tokens, row.Cost = row.Requests+1, row.Tokens+tokens, row.Cost+cost
	w.data.rows[id] = row
	w.all = w.all.plus(spent)
	w.past = w.past.plus(spent.minus(r.want))
}

func (w *runWorld) check(rt *rapid.T) {
	for unit, limit := range w.limits {
		if limit > 0 && w.all[unit] > limit+w.raised[unit]+w.past[unit] {
			rt.Fatalf("%v are spent of %v, raised by %v, and %v beyond what was reserved", w.all, w.limits, w.raised, w.past)
		}
	}
}

// Random histories of requests, raises, crashes, and stores that are away or lose their data keep
// the limits of a run, in one gateway and in several.
func TestLimitsOfARunHoldInRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &runWorld{lives: map[*node]time.Time{}}
		w.t, w.data = rt, &database{map[string]quota.Row{}}
		w.clock.at = time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
		w.limits = Amounts{rapid.SampledFrom([]int64{0, 3, 20}).Draw(rt, "requests"), rapid.SampledFrom([]int64{0, 500, 2000}).Draw(rt, "tokens"), 1500}
		if gateways := rapid.IntRange(1, 3).Draw(rt, "gateways"); gateways > 1 {
			w.store = newTeam(w.clock.now)
			if rapid.Bool().Draw(rt, "master key") {
				w.keys, _ = seal.New(masterKey, "")
			}
			w.nodes = append(w.nodes, make([]*node, gateways-1)...)
		}
		w.nodes = append(w.nodes, nil)
		for i := range w.nodes {
			w.nodes[i] = new(node)
			w.start(w.nodes[i])
		}
		exchange := func() { // twice: the first one learns what the last one tells
			for range 2 {
				for _, n := range w.nodes {
					n.exchange()
				}
			}
		}
		exchange()
		rt.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"reserve":  w.reserve,
			"reserve2": w.reserve,
			"reserve3": w.reserve,
			"settle":   w.settle,
			"settle2":  w.settle,
			"giveBack": w.giveBack,
			"exchange": func(*rapid.T) { exchange() },
			"clock": func(*rapid.T) {
				w.clock.add(time.Minute)
				exchange()
			},
			"raise": func(rt *rapid.T) {
				if w.away {
					return
				}
				by := Amounts{0, 0, rapid.Int64Range(1, 500).Draw(rt, "by")}
				if err := w.pick(rt).account.Decide(func(t *Terms) bool { t.Raised = t.Raised.plus(by); return true }); err != nil {
					rt.Fatal(err)
				}
				w.raised = w.raised.plus(by)
				exchange()
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
					exchange()
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
					exchange()
					w.store.lose()
					exchange()
				}
			},
		})
		if w.away {
			return
		}
		w.clock.add(settleTime)
		exchange()
		for _, n := range w.nodes {
			if err := n.account.Refresh(); err != nil {
				rt.Fatal(err)
			}
			if spent, _ := n.account.Figures(); n.account.Terms().Raised != w.raised || len(w.nodes) == 1 && spent != w.all {
				rt.Fatalf("a gateway knows of %v spent and %+v, want %v and %v", spent, n.account.Terms(), w.all, w.raised)
			}
		}
	})
}

// A run in which something is asked for at one gateway is in use at the others, too, where nothing is
// spent because all of it is refused: it stays ended there as well.
func TestARunThatIsRefusedAtOneGatewayIsInUseAtAll(t *testing.T) {
	t.Parallel()
	w := &runWorld{lives: map[*node]time.Time{}}
	w.data, w.nodes, w.limits = &database{map[string]quota.Row{}}, []*node{new(node), new(node)}, Amounts{1, 0, 0}
	w.clock.at = time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
	w.store = newTeam(w.clock.now)
	for _, n := range w.nodes {
		w.start(n)
	}
	for range 30 {
		w.clock.add(time.Hour)
		w.nodes[0].account.Touch(w.clock.now())
		for _, n := range w.nodes {
			n.exchange()
		}
	}
	if ago := w.clock.now().Sub(w.nodes[1].account.Used()); ago > 24*time.Hour/useParts+time.Second {
		t.Errorf("the other gateway knows of a request %v ago", ago)
	}
}

// The decisions of people are texts in the store, which nobody else can write.
func TestTermsOfARunAreReadAsWritten(t *testing.T) {
	t.Parallel()
	want := Terms{Version: 9, Raised: Amounts{1, 2, 3}, Longer: time.Hour, MostCost: 7, IsEnded: true, IsCut: true, IsByOperator: true, Looped: 3, Lifted: 2}
	if got, ok := ReadTerms(want.String()); !ok || got != want {
		t.Errorf("%+v, %t", got, ok)
	}
	for _, text := range []string{"", "1", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 -8 9", "1 2 3 4 5 6 7 x 9"} {
		if got, ok := ReadTerms(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	keys, _ := seal.New(masterKey, "")
	store := newTeam(time.Now)
	book := New(Options{Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Timeout: time.Minute, Shared: store.member("w"), Keys: keys, manual: true, Runs: &Runs{Idle: time.Hour, GoesOn: func(*quota.Row) bool { return true }}})
	account := book.OpenRun(runSubject, time.Now(), Amounts{0, 0, 10})
	if err := account.Decide(func(t *Terms) bool { t.IsEnded = true; return true }); err != nil {
		t.Fatal(err)
	}
	forged := entry{Committed: Committed{Order: 1}, terms: Terms{Version: 1 << 60}}
	store.store.Put(account.place(account.spans[0]), "x", forged.text(nil, "", "")+" forged")
	if err := account.ask(); err != nil || !account.Terms().IsEnded {
		t.Errorf("%v, %+v", err, account.Terms())
	}
}
