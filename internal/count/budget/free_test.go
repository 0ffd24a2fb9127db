package budget

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A budget that is spent, or passed, refuses nothing that takes nothing of it: neither alone,
// nor with a store, nor while that is away.
func TestASpentBudgetLetsPassWhatTakesNothingOfIt(t *testing.T) {
	t.Parallel()
	for name, isShared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newTeam(time.Now)
			options := Options{Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Degrade: true, Timeout: time.Hour, manual: true}
			if isShared {
				options.Shared = store.member("w")
			}
			book := New(options)
			account := book.Open("key/k", KeySubject("k"), Budgets{Day: Budget{Cost: 10}, Total: Budget{Cost: 10}})
			book.exchange(t.Context())
			passes := func(cost int64) (*Charge, bool) {
				charge := new(Charge)
				refused, err := charge.Reserve(t.Context(), [2]*Account{account}, Exactly(Amounts{1, 100, cost}), time.Now())
				return charge, refused == nil && err == nil
			}
			first, ok := passes(10)
			if !ok {
				t.Fatal("what fits is refused")
			}
			first.Settle(schema.Usage{Total: 100}, 15) // more than it had reserved
			for _, away := range []bool{false, true} {
				if store.setDown(away); away && isShared {
					book.exchange(t.Context())
				}
				for range 3 {
					if _, ok := passes(0); !ok {
						t.Errorf("store away %t: a request that costs nothing is refused", away)
					}
				}
				if _, ok := passes(1); ok {
					t.Errorf("store away %t: a request that costs something passes", away)
				}
			}
		})
	}
}

// A request that was counted when it left stays counted, whatever becomes of it, and is counted
// once.
func TestARequestThatHasLeftStaysCounted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Charge){
		"settled":    func(c *Charge) { c.Settle(schema.Usage{Total: 30}, 5) },
		"given back": func(c *Charge) { c.GiveBack() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := New(Options{Ledger: &ledger{database: &database{map[string]quota.Row{}}, writer: "w"}, FailOpen: true, Degrade: true, Timeout: time.Hour, manual: true})
			account := book.Open("key/k", KeySubject("k"), Budgets{Total: Budget{Requests: 10}})
			for _, leaves := range []bool{false, true} {
				charge := new(Charge)
				if refused, err := charge.Reserve(t.Context(), [2]*Account{account}, Exactly(Amounts{1, 100, 1}), time.Now()); refused != nil || err != nil {
					t.Fatal(refused, err)
				}
				if leaves {
					charge.Count()
					charge.Count()
				}
				end(charge)
				charge.GiveBack()
			}
			want := int64(2)
			if name == "given back" {
				want = 1
			}
			if uses := book.Uses(); len(uses) != 1 || uses[0].Used != want || uses[0].Reserved != 0 {
				t.Errorf("the budget is %+v, want %d used", uses, want)
			}
		})
	}
}
