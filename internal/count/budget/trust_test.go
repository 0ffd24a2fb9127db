package budget

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
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

// withRecords makes a process remember in a directory what was taken over.
func withRecords(t *testing.T, keys *seal.Keys, dir string, accepts bool) func(*Options) {
	return func(o *Options) {
		records, err := takeover.Open(takeover.Options{Keys: keys, AcceptUnsigned: accepts, Data: durable.At(dir), Log: o.Log})
		if err != nil {
			t.Fatal(err)
		}
		o.Keys, o.Takeover = keys, records
	}
}

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

// Totals that no gateway tells are not believed, with a master key or without, and what a
// gateway knows of them is told again.
func TestTotalsThatCannotBeTrueAreRefused(t *testing.T) {
	for name, keys := range map[string]*seal.Keys{"without a master key": nil, "with a master key": sealKeys(t, masterKey, "")} {
		for what, forge := range map[string]map[string]string{
			"negative":                     {"x": "9999 -100 -100000 0"},
			"negative of a gateway":        {"a": "9999 0 -100000 0"},
			"of a gateway, with less":      {"a": "9999 0 0 0", "a:reserved": "9999 0 0 0 reserved"},
			"less at the same order":       {"a": "ORDER 0 0 0", "a:reserved": "ORDER 0 0 0 reserved"},
			"after the last order":         {"x": "4503599627370497 9 900 0"},
			"more reserved than there is":  {"x": "5 1 100 0", "x:reserved": "5 1 200 0 reserved"},
			"negative reservations":        {"x": "5 1 100 0", "x:reserved": "5 1 -200 0 reserved"},
			"not as gateways write it":     {"x": "+5 01 0100 0"},
			"no numbers":                   {"x": "a b c d", "a": "none"},
			"too large":                    {"x": "5 1 99999999999999999999 0"},
			"removed":                      {"a": "", "a:reserved": "", "a:signed": ""},
			"own total of the other one":   {"b": "9999 0 99999999 0", "b:reserved": "9999 0 0 0 reserved"},
			"the last order of a gateway":  {"a": "4503599627370496 0 0 0", "a:reserved": "4503599627370496 0 0 0 reserved", "a:signed": ""},
			"reservations that are unread": {"a:reserved": "x"},
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
			return map[string]string{"x": "9 9 900 0", "x:reserved": "9 0 0 0 reserved"}
		},
		"under the name of another process": func(_ *market, sheet map[string]string) map[string]string {
			return map[string]string{"x": sheet["a"], "x:reserved": sheet["a:reserved"], "x:signed": sheet["a:signed"]}
		},
		"more than there was": func(_ *market, sheet map[string]string) map[string]string {
			order, _, _ := strings.Cut(sheet["a"], " ")
			return map[string]string{"a": order + " 1 900 0"}
		},
		"more, later": func(_ *market, sheet map[string]string) map[string]string {
			_, signature, _ := strings.Cut(sheet["a:signed"], " ")
			return map[string]string{"a": "99999 1 900 0", "a:reserved": "99999 0 0 0 reserved", "a:signed": "99999 " + signature}
		},
		"of another account": func(m *market, _ map[string]string) map[string]string {
			other := m.sheet("p:budget:{key/other}:BUDGET_TOTAL:all")
			return map[string]string{"o": other["o"], "o:reserved": other["o:reserved"], "o:signed": other["o:signed"]}
		},
		"of another window": func(m *market, _ map[string]string) map[string]string {
			day := m.sheet("p:budget:{key/k}:BUDGET_DAY:20260503")
			return map[string]string{"d": day["d"], "d:reserved": day["d:reserved"], "d:signed": day["d:signed"]}
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
			yesterday := &span{start: quota.BudgetDay.Start(m.now.AddDate(0, 0, -1)).Unix()}
			m.store.store.Tell([]tally.Sheet{s.sheet(yesterday, "d", Committed{Order: 5, Amounts: Amounts{1, 700, 0}}, told{})}, false)
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

// readBefore is how 9b73041f reads a sheet.
func readBefore(all map[string]string) map[string]Amounts {
	told := map[string]Amounts{}
	for process, text := range all {
		parts := strings.Split(text, " ")
		if len(parts) != 4 {
			continue
		}
		var numbers [4]int64
		isRead := true
		for i, part := range parts {
			n, err := strconv.ParseInt(part, 10, 64)
			numbers[i], isRead = n, isRead && err == nil
		}
		if isRead {
			told[process] = Amounts{numbers[1], numbers[2], numbers[3]}
		}
	}
	return told
}

// before writes a total as 9b73041f does.
func (m *market) before(process string, order, tokens int64) {
	m.store.store.Tell([]tally.Sheet{{Name: totalSheet, IsOrdered: true, Totals: []tally.Total{
		{Writer: process, Numbers: fmt.Sprintf("%d 1 %d 0", order, tokens)},
		{Writer: process + ":reserved", Numbers: fmt.Sprintf("%d 0 0 0 reserved", order)},
	}}}, true)
}

// What the release before wrote is taken over by the first start with a master key that finds
// no mark, in the data directory or in the store, and refused from then on.
func TestUnsignedTotalsAreTakenOverOnce(t *testing.T) {
	keys, dir := sealKeys(t, masterKey, ""), t.TempDir()
	m := newMarket(t)
	m.before("old1", 7, 100)
	m.before("old2", 9, 50)
	first := m.open("first", withRecords(t, keys, dir, false))
	m.uses("the first start", 150, first)
	if told := readBefore(m.sheet(totalSheet)); !maps.Equal(told, map[string]Amounts{"old1": {1, 100, 0}, "old2": {1, 50, 0}, "first": {}}) {
		t.Errorf("the release before reads %v", told)
	}
	m.before("late", 1, 500) // nobody has read the sheet's like before, but it was read
	m.pass(first)
	m.uses("after it", 150, first)
	m.before("old1", 8, 400)
	m.pass(first)
	m.uses("a later total of the release before", 150, first)
	for what, options := range map[string]func(*Options){
		"the same data directory": withRecords(t, keys, dir, false), "an empty data directory": withRecords(t, keys, t.TempDir(), false),
	} {
		next := m.open("next", options)
		m.pass(next, first)
		m.uses(what, 150, next, first)
	}
	// Whoever removes the mark gains nothing where the data directory stays, and the gateway
	// that runs sets it again.
	m.store.store.Put("p:budget:taken-over", "mark", "")
	next := m.open("next", withRecords(t, keys, dir, false))
	m.pass(next)
	m.uses("without the mark in the store", 150, next)
	if m.sheet("p:budget:taken-over")["mark"] == "" {
		t.Error("the mark is not set again")
	}
	if n := strings.Count(m.log.String(), "what was stored without a signature is taken over"); n != 1 {
		t.Errorf("%d lines say that totals were taken over", n)
	}
}

// A start that ends before all is signed leaves it to the next one.
func TestATakeoverThatDoesNotEndBeginsAgain(t *testing.T) {
	keys, dir := sealKeys(t, masterKey, ""), t.TempDir()
	m := newMarket(t)
	m.before("old", 7, 100)
	killed := m.open("killed", withRecords(t, keys, dir, false)) // one exchange
	m.uses("the first start", 100, killed)
	m.before("old", 8, 120)
	second := m.open("second", withRecords(t, keys, t.TempDir(), false))
	m.pass(second)
	m.uses("the second start", 120, second)
}

// security.accept-unsigned reads what gateways of the release before go on writing; what was
// read is still there when it is off.
func TestUnsignedTotalsAreReadDuringARoll(t *testing.T) {
	keys, dir := sealKeys(t, masterKey, ""), t.TempDir()
	m := newMarket(t)
	m.before("old", 7, 100)
	first := m.open("first", withRecords(t, keys, dir, true))
	m.pass(first)
	m.spend(first, 10)
	for order := int64(8); order < 12; order++ {
		m.before("old", order, 100*order)
		m.pass(first)
		m.uses("while the old gateway counts", 100*order+10, first)
	}
	if told := readBefore(m.sheet(totalSheet)); told["first"][Tokens] < 10 {
		t.Errorf("the release before reads %v", told)
	}
	m.store.store.Put(totalSheet, "x", strings.Replace(m.sheet(totalSheet)["first"], " ", "0 ", 1))
	m.store.store.Put(totalSheet, "x:signed", strings.Replace(m.sheet(totalSheet)["first:signed"], " ", "0 ", 1))
	m.news()
	m.pass(first)
	m.uses("a wrong signature", 1110, first)
	second := m.open("second", withRecords(t, keys, t.TempDir(), false))
	m.pass(second)
	m.uses("after the roll", 1110, second)
	m.before("old", 20, 2000)
	m.pass(second)
	m.uses("a gateway of the release before after the roll", 1110, second)
}

// Totals follow the rotation of the master key.
func TestTotalsFollowTheMasterKey(t *testing.T) {
	m := newMarket(t)
	m.spend(m.open("before", withKeys(sealKeys(t, masterKey, ""))), 100)
	rotated := m.open("rotated", withKeys(sealKeys(t, laterKey, masterKey)))
	m.pass(rotated)
	m.uses("with both keys", 100, rotated)
	after := m.open("after", withKeys(sealKeys(t, laterKey, "")))
	m.pass(after)
	m.uses("with the new one", 100, after)
	foreign := m.open("foreign", withKeys(sealKeys(t, masterKey, "")))
	m.pass(foreign)
	m.uses("with the old one", 0, foreign)
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
	for _, field := range []string{"a", "a:reserved", "a:signed"} {
		m.store.store.Put(totalSheet, field, old[field])
	}
	m.news()
	m.pass(b)
	m.uses("the other one", 300, b)
	late := m.open("late", withKeys(keys))
	m.pass(late)
	m.uses("one that comes later", 300, late)
}
