package budget

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

const masterKey, laterKey = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func sealKeys(t *testing.T, current, previous string) *seal.Keys {
	t.Helper()
	keys, err := seal.New(current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// market is gateways whose store somebody else writes to.
type market struct {
	t     *testing.T
	now   time.Time
	store *team
	log   bytes.Buffer
}

func newMarket(t *testing.T) *market {
	t.Helper()
	m := &market{t: t, now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	m.store = newTeam(func() time.Time { return m.now })
	return m
}

// open starts a process with an account of 1,000 tokens in all.
func (m *market) open(writer string, change func(*Options)) *Account {
	m.t.Helper()
	shared := m.store.member(writer)
	shared.changes = func() string { return "epoch " + strconv.FormatInt(m.store.store.News(), 10) }
	options := Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: writer}, FailOpen: true, Timeout: time.Minute, Now: m.store.now,
		Shared: shared, Prefix: "p", Log: slog.New(slog.NewTextHandler(&m.log, nil)), manual: true, pause: noPause,
	}
	if change != nil {
		change(&options)
	}
	a := New(options).Open("key/k", subject, Budgets{Total: Budget{Tokens: 1000}})
	a.book.exchange(m.t.Context())
	return a
}

func withKeys(keys *seal.Keys) func(*Options) { return func(o *Options) { o.Keys = keys } }

// spend makes a request of so many tokens.
func (m *market) spend(a *Account, tokens int64) {
	m.t.Helper()
	charge := new(Charge)
	if refused, err := charge.Reserve(m.t.Context(), [2]*Account{a}, Exactly(Amounts{1, tokens, 0}), m.now); refused != nil || err != nil {
		m.t.Fatal(refused, err)
	}
	charge.Settle(schema.Usage{Total: tokens}, 0)
	a.book.exchange(m.t.Context())
}

// pass lets some seconds pass.
func (m *market) pass(accounts ...*Account) {
	for range 5 {
		m.now = m.now.Add(beat)
		for _, a := range accounts {
			a.book.exchange(m.t.Context())
		}
	}
}

// uses checks what accounts take for used.
func (m *market) uses(what string, want int64, accounts ...*Account) {
	m.t.Helper()
	for _, a := range accounts {
		if use := a.book.Uses()[0]; use.Used != want {
			m.t.Errorf("%s: %s takes %d for used, want %d", what, a.book.writer, use.Used, want)
		}
	}
}

const totalSheet = "p:budget:{key/k}:BUDGET_TOTAL:all"

func (m *market) sheet(name string) map[string]string {
	return m.store.store.Tell([]tally.Sheet{{Name: name, IsRead: true}}, false)[0]
}

// news makes gateways look at what somebody wrote.
func (m *market) news() { m.store.store.Tell(nil, true) }

// noRun is the end of a total that belongs to no run.
const noRun = " 0 0 0 0 0 0 0 0 0 0 0"

// Totals that no gateway tells are not believed, with a master key or without, and what a
// gateway knows of them is told again.
func TestTotalsThatCannotBeTrueAreRefused(t *testing.T) {
	for name, keys := range map[string]*seal.Keys{"without a master key": nil, "with a master key": sealKeys(t, masterKey, "")} {
		for what, forge := range map[string]map[string]string{
			"negative":                     {"x": "9999 -100 0 -100000 0 0 0 0 0" + noRun},
			"negative of a gateway":        {"a": "9999 0 0 -100000 0 0 0 0 0" + noRun},
			"of a gateway, with less":      {"a": "9999 0 0 0 0 0 0 0 0" + noRun},
			"less at the same order":       {"a": "ORDER 0 0 0 0 0 0 0 0" + noRun},
			"after the last order":         {"x": "4503599627370497 9 0 900 0 0 0 0 0" + noRun},
			"more reserved than there is":  {"x": "5 1 0 100 200 0 0 0 0" + noRun},
			"negative reservations":        {"x": "5 1 0 100 -200 0 0 0 0" + noRun},
			"not as gateways write it":     {"x": "+5 01 0 0100 0 0 0 0 0" + noRun},
			"no numbers":                   {"x": "a b c d", "a": "none"},
			"too large":                    {"x": "5 1 0 99999999999999999999 0 0 0 0 0" + noRun},
			"removed":                      {"a": ""},
			"own total of the other one":   {"b": "9999 0 0 99999999 0 0 0 0 0" + noRun},
			"the last order of a gateway":  {"a": "4503599627370496 0 0 0 0 0 0 0 0" + noRun},
			"reservations that are unread": {"a": "9999 0 x 0 x 0 x 0 x" + noRun},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				m := newMarket(t)
				a, b := m.open("a", withKeys(keys)), m.open("b", withKeys(keys))
				m.spend(a, 300)
				m.spend(b, 100)
				m.pass(a, b)
				m.uses("before", 400, a, b)
				before := m.sheet(totalSheet)
				order, _, _ := strings.Cut(before["a"], " ")
				for writer, text := range forge {
					m.store.store.Put(totalSheet, writer, strings.ReplaceAll(text, "ORDER", order))
				}
				m.news()
				if what == "own total of the other one" && keys == nil {
					m.pass(b) // nobody else can know, before it has healed
				}
				m.pass(b, a)
				m.uses("after", 400, a, b)
				after := m.sheet(totalSheet)
				healed := readAll(after)
				if got := healed["a"].Amounts.minus(healed["a"].Reserved); got[Tokens] != 300 {
					t.Errorf("the store has %v", after)
				}
				if keys != nil && what != "removed" && a.book.Stats().RefusedTotals+b.book.Stats().RefusedTotals == 0 {
					t.Error("nothing was counted")
				}
			})
		}
	}
}

// With a master key nobody without it can make a total, change one, or move it.
func TestTotalsAreSigned(t *testing.T) {
	keys := sealKeys(t, masterKey, "")
	for what, forge := range map[string]func(m *market, sheet map[string]string) map[string]string{
		"of a process that is not there": func(*market, map[string]string) map[string]string {
			return map[string]string{"x": "9 9 0 900 0 0 0 0 0" + noRun}
		},
		"under the name of another process": func(_ *market, sheet map[string]string) map[string]string {
			return map[string]string{"x": sheet["a"]}
		},
		"more than there was": func(_ *market, sheet map[string]string) map[string]string {
			order, _, _ := strings.Cut(sheet["a"], " ")
			return map[string]string{"a": order + " 1 0 900 0 0 0 0 0" + noRun}
		},
		"more, later": func(_ *market, sheet map[string]string) map[string]string {
			signature := sheet["a"][strings.LastIndexByte(sheet["a"], ' '):]
			return map[string]string{"a": "99999 1 0 900 0 0 0 0 0" + noRun + signature}
		},
		"of another account": func(m *market, _ map[string]string) map[string]string {
			other := m.sheet("p:budget:{key/other}:BUDGET_TOTAL:all")
			return map[string]string{"o": other["o"]}
		},
		"of another window": func(m *market, _ map[string]string) map[string]string {
			day := m.sheet("p:budget:{key/k}:BUDGET_DAY:20260503")
			return map[string]string{"d": day["d"]}
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := newMarket(t)
			a, b := m.open("a", withKeys(keys)), m.open("b", withKeys(keys))
			m.spend(a, 300)
			o := m.open("o", withKeys(keys))
			other := o.book.Open("key/other", KeySubject("other"), Budgets{Total: Budget{Tokens: 1000}})
			m.spend(other, 500)
			s := &state{book: o.book, name: "key/k"}
			yesterday := &span{window: quota.BudgetDay, start: quota.BudgetDay.Start(m.now.AddDate(0, 0, -1)).Unix()}
			m.store.store.Tell([]tally.Sheet{s.sheet(yesterday, "d", Committed{Order: 5, Amounts: Amounts{1, 700, 0}}, "")}, false)
			m.pass(a, b)
			for writer, text := range forge(m, m.sheet(totalSheet)) {
				if text == "" {
					t.Fatalf("%s is not there", writer)
				}
				m.store.store.Put(totalSheet, writer, text)
			}
			m.news()
			m.pass(b, a)
			m.uses("after", 300, a, b)
			late := m.open("late", withKeys(keys))
			m.pass(late)
			m.uses("a gateway that comes later", 300, late)
			if got := readAll(m.sheet(totalSheet))["a"]; got.Amounts[Tokens]-got.Reserved[Tokens] != 300 {
				t.Errorf("the store has %v", m.sheet(totalSheet))
			}
			if lines := strings.Count(m.log.String(), "totals of a budget that are in Redis are refused"); b.book.Stats().RefusedTotals == 0 || lines == 0 || lines > 5 {
				t.Errorf("%d refused, %d lines", b.book.Stats().RefusedTotals, lines)
			}
		})
	}
}

// An older total that somebody puts back is not believed by gateways that know a later one,
// and they tell that again.
func TestAnOldTotalThatIsPutBackIsReplaced(t *testing.T) {
	keys := sealKeys(t, masterKey, "")
	m := newMarket(t)
	a, b := m.open("a", withKeys(keys)), m.open("b", withKeys(keys))
	m.spend(a, 100)
	old := m.sheet(totalSheet)
	m.spend(a, 200)
	m.pass(a, b)
	m.store.store.Put(totalSheet, "a", old["a"])
	m.news()
	m.pass(b)
	m.uses("the other one", 300, b)
	late := m.open("late", withKeys(keys))
	m.pass(late)
	m.uses("one that comes later", 300, late)
}
