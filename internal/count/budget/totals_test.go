package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// readAll reads all totals of a sheet that can be true, without their signatures.
func readAll(all map[string]string) map[string]Committed {
	read := map[string]Committed{}
	for process, text := range all {
		if at := strings.Index(text, " v1."); at >= 0 {
			text = text[:at]
		}
		if e, ok := readEntry(nil, "", process, text); ok {
			read[process] = e.Committed
		}
	}
	return read
}

// Gateways tell each other what they have committed in all and what of it they have reserved. A later
// total replaces an earlier one of the same process, and no earlier one a later one.
func TestTotalsAreReadAsTold(t *testing.T) {
	store := tallytest.New()
	s := &state{book: New(Options{Prefix: "p"}), name: "key/k"}
	at := &span{window: quota.BudgetDay, start: quota.BudgetDay.Start(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)).Unix()}
	tell := func(process string, what Committed) map[string]Committed {
		return readAll(store.Tell([]tally.Sheet{s.sheet(at, process, what, "")}, false)[0])
	}
	is := func(all map[string]Committed, process string, want Committed) {
		t.Helper()
		if all[process] != want {
			t.Errorf("%s has %+v, want %+v", process, all[process], want)
		}
	}
	sheet := s.sheet(at, "a", Committed{}, "")
	if sheet.Name != "p:budget:{key/k}:BUDGET_DAY:20260504" || !sheet.Expire.Equal(time.Date(2026, 5, 5, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("%s until %v", sheet.Name, sheet.Expire)
	}
	first := Committed{Order: 3, Amounts: Amounts{5, 500, 1 << 60}, Reserved: Amounts{1, 100, 1 << 40}}
	is(tell("a", first), "a", first)
	is(tell("a", Committed{Order: 2, Amounts: Amounts{9, 9, 9}}), "a", first)
	tell("b", Committed{Order: 7, Amounts: Amounts{2, 20, 0}, Reserved: Amounts{1, 10, 0}})
	all := tell("a", Committed{Order: 10, Amounts: Amounts{5, 460, 7}})
	is(all, "a", Committed{Order: 10, Amounts: Amounts{5, 460, 7}})
	is(all, "b", Committed{Order: 7, Amounts: Amounts{2, 20, 0}, Reserved: Amounts{1, 10, 0}})
	if len(all) != 2 {
		t.Errorf("there are %v", all)
	}
}

// A gateway with a request that runs for long tells that it is there: the others do not take
// what it has reserved for that of a gateway which is gone.
func TestReservationsOfALongRequestStayReserved(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	var accounts []*Account
	for _, writer := range []string{"a", "b"} {
		shared := store.member(writer)
		shared.changes = func() string { return "epoch" + string(rune('0'+store.store.News()%10)) }
		book := New(Options{
			Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: writer}, FailOpen: true, Timeout: time.Minute, Now: store.now,
			Shared: shared, manual: true, pause: noPause,
		})
		accounts = append(accounts, book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 100}}))
	}
	if refused, err := new(Charge).Reserve(t.Context(), [2]*Account{accounts[0]}, Exactly(Amounts{1, 70, 0}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	for range 45 {
		now = now.Add(beat)
		for _, account := range accounts {
			account.book.exchange(t.Context())
		}
		if use := accounts[1].book.Uses()[0]; use.Used != 0 || use.Reserved != 70 {
			t.Fatalf("%+v", use)
		}
	}
}

// A gateway that stops leaves nothing committed ahead, which nobody would give back.
func TestAGatewayThatStopsLeavesNothingReserved(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	book := New(Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Timeout: time.Minute, Now: store.now,
		Shared: store.member("w"), ReadEvery: time.Hour,
	})
	account := book.Open("key/k", subject, Budgets{Total: Budget{Tokens: 10_000}})
	for range 10 {
		var charge Charge
		if refused, err := charge.Reserve(t.Context(), [2]*Account{account}, Exactly(Amounts{1, 70, 0}), now); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		charge.GiveBack()
	}
	read := func() Committed {
		for _, one := range readAll(store.store.Tell([]tally.Sheet{{Name: ":budget:{key/k}:BUDGET_TOTAL:all", IsRead: true}}, false)[0]) {
			return one
		}
		return Committed{}
	}
	if read().Reserved[Tokens] == 0 {
		t.Fatal("nothing is committed ahead")
	}
	_ = book.Close(t.Context())
	if last := read(); last.Amounts[Tokens] != 0 || last.Reserved[Tokens] != 0 {
		t.Errorf("left is %+v", last)
	}
}

// However many accounts there are, all of them are told with a few round trips.
func TestManyAccountsAreToldTogether(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	store := newTeam(func() time.Time { return now })
	book := New(Options{
		Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Timeout: time.Minute, Now: store.now,
		Shared: store.member("w"), manual: true, pause: noPause,
	})
	const accounts = 2*commitAtOnce + 10
	for n := range accounts {
		name := fmt.Sprint("key/k", n)
		account := book.Open(name, KeySubject(name), Budgets{Total: Budget{Tokens: 100}})
		var charge Charge
		if refused, err := charge.Reserve(t.Context(), [2]*Account{account}, Exactly(Amounts{1, 70, 0}), now); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		charge.Settle(schema.Usage{Total: int64(n % 50)}, 0)
	}
	before := store.store.Told()
	book.exchange(t.Context())
	if told := store.store.Told() - before; told != 3 {
		t.Errorf("%d round trips for %d accounts", told, accounts)
	}
	for n := range accounts {
		sheet := tally.Sheet{Name: fmt.Sprintf(":budget:{key/k%d}:BUDGET_TOTAL:all", n), IsRead: true}
		for _, one := range readAll(store.store.Tell([]tally.Sheet{sheet}, false)[0]) {
			if one.Amounts != (Amounts{1, int64(n % 50), 0}) {
				t.Fatalf("account %d has told %+v", n, one)
			}
		}
	}
}
