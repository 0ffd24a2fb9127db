package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// world has everything that accounts take from, and what they should have taken.
type world struct {
	desk    Desk
	ledger  *quota.Ledger // what is used
	spent   *quota.Ledger // the budgets
	book    *budget.Book
	doc     *config.Document
	table   *routing.Table
	grant   *access.Grant
	refuses bool // the step refuses
	// counted are the requests in the ledger, kept those that limits and budgets keep, and visits
	// those that only the limits do. tokens and cost are what was settled with.
	counted, kept, visits int64
	tokens                int64
	cost                  prices.Amount
	// left are the accounts that left for a backend, and departed those of them that were given
	// back: budgets count them as requests without tokens.
	left     map[*Account]bool
	departed int64
	limited  int64 // the requests that the limits of the models keep
}

const (
	allRequests     = 1_000_000
	requestsAMinute = 60
	tokensAMinute   = 100_000
	atATime         = 4
)

// newWorld returns a world in which the model m costs more than f, which takes over from it.
func newWorld(t *testing.T) *world {
	doc := config.Default()
	chat := doc.Services[schema.Chat]
	for _, model := range []string{"m", "f"} {
		one := backend.DefaultSettings()
		one.Name, one.BaseURL = model, "http://"+model+".test"
		chat.Instances = append(chat.Instances, one)
	}
	chat.RateLimit.Enabled, chat.RateLimit.Scope, chat.RateLimit.Algorithm = true, ratelimit.PerModel,
		ratelimit.SlidingWindow
	chat.RateLimit.Capacity, chat.RateLimit.RefillRate = allRequests, 1
	chat.Fallbacks = naming.Fallbacks{"m": {"f"}}
	doc.Services[schema.Chat] = chat
	doc.Prices.Models = []prices.Model{
		{Model: "m", Price: prices.Price{Input: 2_000_000, Output: 4_000_000}},
		{Model: "f", Price: prices.Price{Input: 1_000_000, Output: 1_000_000}},
	}
	w := &world{doc: doc}
	settings := doc.Quota
	settings.Enabled, settings.FailOpen = true, false
	open := func(context.Context) (quota.Snapshots, error) { return empty{}, nil }
	w.ledger = quota.New(settings, quota.Options{Dir: filepath.Join(t.TempDir(), "quota"), OpenSnapshots: open})
	settings.Windows = []quota.Window{quota.BudgetDay, quota.BudgetMonth, quota.BudgetTotal}
	w.spent = quota.New(settings, quota.Options{Dir: filepath.Join(t.TempDir(), "budget"), OpenSnapshots: open})
	w.book = budget.New(budget.Options{Ledger: w.spent})
	w.desk.SetLedger(w.ledger)
	w.desk.Use(func(ctx context.Context, a *Account) (Answer, error) {
		if w.refuses {
			return nil, errors.New("refused")
		}
		return a.Next(ctx)
	})
	return w
}

// empty is a database that has nothing: all that is counted is in memory.
type empty struct{}

func (empty) Write(context.Context, []quota.Row) error { return errors.New("full") }

func (empty) Read(context.Context, quota.Filter) ([]quota.Row, error) { return nil, nil }

func (empty) Remove(context.Context, []quota.Row) error                         { return nil }
func (empty) Expire(context.Context, quota.Window, time.Time, int) (int, error) { return 0, nil }

func (empty) Close() error { return nil }

// renew gives the world a key that has used nothing.
func (w *world) renew(id string) {
	now := time.Now()
	limits := allowance.Limits{RequestsPerMinute: requestsAMinute, TokensPerMinute: tokensAMinute,
		ConcurrentRequests: atATime}
	total := budget.Budget{Requests: 12, Tokens: 20_000, Cost: 30_000}
	w.grant = &access.Grant{}
	w.grant.ID = id
	w.grant.Accounts[0] = allowance.NewAccounts(nil).Open(allowance.KeyName(id), limits, now)
	w.grant.Budgets[0] = w.book.Open(allowance.KeyName(id), quota.Subject{APIKey: id}, budget.Budgets{Total: total})
	w.counted, w.kept, w.visits, w.tokens, w.cost, w.departed = 0, 0, 0, 0, 0, 0
	w.left, w.limited = map[*Account]bool{}, 0
	w.table, _ = routing.Compile(w.doc.Routed(), nil, nil) // whose limits have counted nothing
}

var fields = schema.FieldsOf(struct {
	Model string `json:"model"`
}{})

// account returns an account that was not opened.
func (w *world) account(t *rapid.T) *Account {
	asks := new(schema.Request)
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":%d}`,
		rapid.IntRange(1, 3000).Draw(t, "most"))
	if err := asks.ParseBody(schema.DoorChat, []byte(body), fields); err != nil {
		t.Fatal(err)
	}
	a := &Account{
		Desk: &w.desk, Asks: asks, Table: w.table, Class: schema.Normal,
		Caller: &access.Caller{Grant: w.grant, KeyID: w.grant.ID},
		Record: &calls.Record{Started: time.Now(), Service: schema.Chat},
	}
	if rapid.IntRange(0, 3).Draw(t, "spare") == 0 {
		a.Class = schema.Spare
	}
	a.Find()
	return a
}

// Whatever is done with accounts, in whatever order and however often: when all are closed, nothing
// is reserved or running, and every request counts once, with its tokens and its cost, if it was
// settled, and not at all if it was given back or refused.
func TestAccountsLeaveNothingReservedAndCountOnce(t *testing.T) {
	w := newWorld(t)
	keys := 0
	rapid.Check(t, func(rt *rapid.T) {
		keys++
		w.renew(fmt.Sprint("k", keys))
		for range rapid.IntRange(1, 12).Draw(rt, "accounts") {
			two := [...]*Account{w.account(rt), w.account(rt)}
			for range rapid.IntRange(0, 14).Draw(rt, "steps") {
				w.step(rt, two[rapid.IntRange(0, 1).Draw(rt, "which")])
			}
			for _, a := range append(two[:], two[0]) {
				w.end(a, a.Close)
			}
		}
		w.check(rt)
	})
	w.book.Close(t.Context())
	// The database takes nothing; the journals have it.
	_ = errors.Join(w.ledger.Close(t.Context()), w.spent.Close(t.Context()))
}

// step does one thing with an account.
func (w *world) step(t *rapid.T, a *Account) {
	before := a.stage
	switch way := rapid.SampledFrom([]string{"open", "visit", "reserve", "count", "leaves", "spend", "move", "measure",
		"settle", "give back", "close"}).Draw(t, "way"); way {
	case "open", "visit":
		if before == unopened && a.Asks != nil {
			w.open(t, a, way == "visit")
		}
	case "reserve":
		if before == open {
			reserved, err := a.Reserve(rapid.Int64Range(0, 50).Draw(t, "sent"), true)
			if err == nil && rapid.Bool().Draw(t, "released") {
				a.Release(reserved)
			}
		}
	case "count":
		if before == open && !a.isCounted && a.Count() == nil {
			w.counted++
		}
		if before == open {
			_ = a.Count() // has no effect
		}
	case "leaves":
		if before == open {
			a.Leaves()
			w.left[a] = true
		}
	case "spend":
		if before == open {
			a.Spend(schema.Usage{Known: true, Prompt: 3, Total: 3}, nil, nil)
		}
	case "move":
		if before == open {
			move, ok := a.Move(a.service().Find("f"), time.Now())
			if ok && rapid.Bool().Draw(t, "kept") {
				move.Keep(time.Now())
				a.ServeBy(a.service().Find("f"))
			} else if ok {
				move.Undo(time.Now())
			}
		}
	case "measure":
		a.Measure([]byte(`{"choices":[{"delta":{"content":"some text of the answer"}}]}`))
	case "settle":
		used := w.settle(t, a)
		if before == open {
			w.kept++
			w.limited++
			w.tokens += used + a.lost.used.Total
			w.cost += a.Record.Cost
			delete(w.left, a)
		}
	case "give back":
		w.end(a, a.GiveBack)
	case "close":
		w.end(a, a.Close)
	}
}

// settle ends an account in one of the ways in which calls end, and returns the tokens that it used.
func (w *world) settle(t *rapid.T, a *Account) int64 {
	n, written := rapid.Int64Range(1, 40).Draw(t, "used"), a.answer.Tokens()
	estimated := a.most.Prompt + written
	switch ending := rapid.SampledFrom([]string{"whole", "total alone", "zeros", "no report", "cut", "cut before the answer",
		"failed", "in pieces"}).Draw(t, "ending"); ending {
	case "whole":
		a.Settle(schema.Usage{Known: true, Prompt: n, Completion: n, Total: 2 * n}, true, true)
		return 2 * n
	case "total alone":
		a.Settle(schema.Usage{Known: true, Total: n}, true, true)
		return n
	case "zeros":
		a.Settle(schema.Usage{Known: true}, true, true)
		if written == 0 {
			return 0
		}
	case "no report":
		a.Settle(schema.Usage{}, true, true)
	case "cut":
		a.Settle(schema.Usage{Known: true, Prompt: n, Total: n}, false, true)
		return n + written
	case "cut before the answer":
		a.Settle(schema.Usage{}, false, true)
	case "failed":
		a.Settle(schema.Usage{}, false, false)
		return 0
	case "in pieces":
		if a.stage == open {
			a.Spend(schema.Usage{Known: true, Total: n}, nil, nil)
			a.SpentAll()
		}
		a.Settle(schema.Usage{}, true, true)
		return 0
	}
	return estimated
}

// end ends an account that was not settled.
func (w *world) end(a *Account, end func()) {
	end()
	if w.left[a] {
		delete(w.left, a)
		w.departed++
	}
}

// open opens an account, with a step that may refuse it.
func (w *world) open(t *rapid.T, a *Account, isVisit bool) {
	if isVisit {
		a.Pool = nil
		if a.Visit() == nil {
			w.visits++
		}
		return
	}
	w.refuses = rapid.IntRange(0, 4).Draw(t, "refuses") == 0
	_, err := a.Open(t.Context(), func(context.Context) (Answer, error) { return nil, nil })
	if a.IsOpen() != (err == nil) && !w.refuses {
		t.Fatalf("%v, and the account is at %d", err, a.stage)
	}
	a.ServeBy(a.Pool)
}

// check fails unless everything that was taken is what was used.
func (w *world) check(t *rapid.T) {
	key := w.grant.Accounts[0]
	if key.Running() != 0 {
		t.Errorf("%d requests run", key.Running())
	}
	var probe allowance.Use
	if refused := probe.Take(w.grant.Accounts, 0, time.Now()); refused != nil && w.tokens < tokensAMinute {
		t.Errorf("a request is refused: %+v", refused)
	}
	if got := int64(requestsAMinute - 1 - probe.Requests.Remaining); got != w.kept+w.visits {
		t.Errorf("the limit of the key has counted %d requests, want %d and %d visits", got, w.kept, w.visits)
	}
	if got := int64(tokensAMinute - probe.Tokens.Remaining); got != w.tokens {
		t.Errorf("the limit of the key has counted %d tokens, want %d", got, w.tokens)
	}
	probe.GiveBack(time.Now())
	want := [...]int64{w.kept + w.departed, w.tokens, int64(w.cost)}
	for _, use := range w.book.Uses() {
		if use.Account == allowance.KeyName(w.grant.ID) && (use.Reserved != 0 || use.Used != want[use.Unit]) {
			t.Errorf("of the budget of %s %d are used and %d reserved, want %d", use.UnitName(), use.Used, use.Reserved,
				want[use.Unit])
		}
	}
	w.checkLedgers(t)
}

// ledgerOf returns what the ledger has of the key.
func (w *world) ledgerOf(t interface {
	Context() context.Context
	Fatal(args ...any)
}) (requests, tokens int64) {
	day := quota.Day
	_, err := w.ledger.EachUsage(t.Context(), quota.UsageQuery{APIKey: w.grant.ID, Window: &day},
		func(u quota.Usage) bool {
			requests, tokens = requests+u.Requests, tokens+u.Tokens
			return true
		})
	if err != nil {
		t.Fatal(err)
	}
	return requests, tokens
}

// checkLedgers fails unless the ledgers have what was counted, and no cell is held.
func (w *world) checkLedgers(t *rapid.T) {
	if used, spent := w.ledger.Stats().InFlight, w.spent.Stats().InFlight; used != 0 || spent != 0 {
		t.Errorf("%d and %d requests are not settled in the ledgers", used, spent)
	}
	if requests, _ := w.ledgerOf(t); requests != w.counted {
		t.Errorf("the ledger has %d requests, want %d", requests, w.counted)
	}
	all := int64(2 * allRequests)
	for _, pool := range w.table.Pools() {
		all -= int64(pool.Limiter.Peek(netip.Addr{}, time.Now()).Remaining)
	}
	if all != w.limited {
		t.Errorf("the limits of the models have counted %d requests, want %d", all, w.limited)
	}
}
