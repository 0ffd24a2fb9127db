package allowance

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestARequestCountsForAllItsAccountsOrForNone(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	accounts := NewAccounts(nil)
	key := accounts.Open("key/k", Limits{RequestsPerMinute: 10, TokensPerMinute: 100, ConcurrentRequests: 2}, now)
	tenant := accounts.Open("tenant/t", Limits{RequestsPerMinute: 3, TokensPerMinute: 1000}, now)
	if accounts.Open("key/free", Limits{RequestsPerMinute: Unlimited}, now) != nil {
		t.Error("there is an account without a limit")
	}
	both := [2]*Account{key, tenant}
	check := func(step string, running, requests, tokens, tenantRequests, tenantTokens int) {
		t.Helper()
		got := [...]int{int(key.Running()), key.requests.Peek(now).Remaining, key.tokens.Peek(now).Remaining, tenant.requests.Peek(now).Remaining, tenant.tokens.Peek(now).Remaining}
		if want := [...]int{running, requests, tokens, tenantRequests, tenantTokens}; got != want {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	var first, second, third, fourth Use
	if r := first.Take(both, 40, now); r != nil || first.Requests.Remaining != 2 || first.Tokens.Remaining != 60 {
		t.Errorf("first %+v %+v", r, first)
	}
	check("first", 1, 9, 60, 2, 960)
	if r := second.Take(both, 70, now); r == nil || r.Unit != Tokens || r.Account != key || second.Tokens.Limit != 100 {
		t.Errorf("tokens %+v", r)
	}
	check("refused for tokens", 1, 9, 60, 2, 960)
	if r := second.Take(both, 10, now); r != nil {
		t.Errorf("second %+v", r)
	}
	if r := third.Take(both, 1, now); r == nil || r.Unit != Concurrency || r.State.RetryAfter <= 0 {
		t.Errorf("concurrency %+v", r)
	}
	check("refused for concurrency", 2, 8, 50, 1, 950)
	second.GiveBack(now)
	second.Settle(500, now)
	second.End()
	check("given back", 1, 9, 60, 2, 960)
	first.Settle(5, now)
	first.Settle(7, now)
	first.End()
	first.End()
	check("settled", 0, 9, 93, 2, 993)
	if third.Take(both, 0, now) != nil || fourth.Take(both, 0, now) != nil {
		t.Error("a request below the limits is refused")
	}
	third.End()
	fourth.End()
	if r := first.Take(both, 0, now); r == nil || r.Unit != Requests || r.Account != tenant || first.Requests.Limit != 3 {
		t.Errorf("requests of the tenant %+v", r)
	}
	check("refused by the tenant", 0, 7, 93, 0, 993)
}

func TestARequestWithoutTokensIsNotRefusedForThem(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	key := NewAccounts(nil).Open("key/k", Limits{RequestsPerMinute: 10, TokensPerMinute: 100}, now)
	var first, second Use
	if r := first.Take([2]*Account{key}, 50, now); r != nil {
		t.Fatalf("%+v", r)
	}
	first.Settle(500, now)
	first.End()
	if r := second.Take([2]*Account{key}, 0, now); r == nil || r.Unit != Tokens {
		t.Errorf("a request whose tokens are not known: %+v", r)
	}
	if r := second.Take([2]*Account{key}, NoTokens, now); r != nil || second.Requests.Remaining != 8 {
		t.Errorf("%+v %+v", r, second)
	}
	second.GiveBack(now)
	if got := key.tokens.Peek(now.Add(61 * time.Second)); got.Remaining != 100 {
		t.Errorf("%+v", got)
	}
}

func TestAccountsKeepTheirCountsWhenLimitsChange(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	accounts := NewAccounts(nil)
	var use, more Use
	use.Take([2]*Account{accounts.Open("key/k", Limits{RequestsPerMinute: 2}, now)}, 0, now)
	narrow := accounts.Open("key/k", Limits{RequestsPerMinute: 1}, now)
	if r := more.Take([2]*Account{narrow}, 0, now); r == nil || narrow.Running() != 1 {
		t.Errorf("an edit forgets what was taken: %+v, %d run", r, narrow.Running())
	}
	accounts.Keep(func(string) bool { return false })
	if r := more.Take([2]*Account{accounts.Open("key/k", Limits{RequestsPerMinute: 1}, now)}, 0, now); r != nil {
		t.Errorf("the counts of a key that was removed are kept: %+v", r)
	}
}

func TestConcurrentRequestsNeverExceedTheLimit(t *testing.T) {
	now := time.Now()
	account := [2]*Account{NewAccounts(nil).Open("key/k", Limits{ConcurrentRequests: 3, RequestsPerMinute: 500}, now)}
	var running, most, admitted atomic.Int64
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 200 {
				var use Use
				if use.Take(account, 0, now) != nil {
					continue
				}
				for n := running.Add(1); n > most.Load(); {
					most.Store(n)
				}
				admitted.Add(1)
				running.Add(-1)
				use.Settle(0, now)
				use.End()
			}
		})
	}
	workers.Wait()
	if most.Load() > 3 || admitted.Load() > 500 || account[0].Running() != 0 {
		t.Errorf("%d at a time, %d in all, %d left", most.Load(), admitted.Load(), account[0].Running())
	}
}
