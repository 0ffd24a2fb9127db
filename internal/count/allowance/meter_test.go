package allowance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// taking is an amount that counts from a moment on.
type taking struct {
	at     time.Duration
	amount int64
}

// In no sixty seconds is more taken than the limit, and a refusal says when the amount
// is allowed: not before, and surely then.
func TestMeterKeepsTheLimitInEveryMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_700_000_000, 0)
		limit := rapid.Int64Range(1, 50).Draw(t, "limit")
		meter := NewAccounts(nil).newMeter("m", limit, start)
		var taken []taking
		at := time.Duration(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			at += rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, time.Second, 7 * time.Second, 59 * time.Second, 61 * time.Second, time.Hour}).Draw(t, "pause")
			amount := rapid.Int64Range(1, limit).Draw(t, "amount")
			state := meter.Take(int(amount), start.Add(at))
			if state.Allowed {
				taken = append(taken, taking{at, amount})
				if state.RetryAfter != 0 {
					t.Fatalf("allowed, and told to wait: %+v", state)
				}
			} else {
				tryAgain(t, limit, taken, start, at, amount, state.RetryAfter)
			}
			var counts int64
			for _, one := range taken {
				if one.at > at-time.Minute {
					counts += one.amount
				}
			}
			if counts > limit || int64(state.Remaining) > limit-counts || int64(state.Limit) != limit {
				t.Fatalf("%d of %d taken within a minute, state %+v", counts, limit, state)
			}
		}
	})
}

// tryAgain checks on meters with the same history that the wait is neither too long nor too
// short.
func tryAgain(t *rapid.T, limit int64, taken []taking, start time.Time, at time.Duration, amount int64, wait time.Duration) {
	again := func(after time.Duration) bool {
		same := NewAccounts(nil).newMeter("m", limit, start)
		for _, one := range taken {
			same.Take(int(one.amount), start.Add(one.at))
		}
		same.Take(int(amount), start.Add(at)) // refused
		return same.Take(int(amount), start.Add(at+after)).Allowed
	}
	if wait <= 0 || wait > 60*time.Second || !again(wait) || again(wait-time.Millisecond) {
		t.Fatalf("told to wait %s at %s", wait, at)
	}
}

func TestMeterIsCorrectedByWhatWasUsed(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	meter := NewAccounts(nil).newMeter("m", 100, start)
	if state := meter.Take(60, at(0)); !state.Allowed || state.Remaining != 40 || state.ResetAfter != 60*time.Second {
		t.Errorf("first %+v", state)
	}
	if state := meter.Take(60, at(10)); state.Allowed || state.RetryAfter != 50*time.Second || state.Remaining != 40 {
		t.Errorf("too much %+v", state)
	}
	meter.Settle(at(0), -50, at(11)) // it used 10
	if state := meter.Peek(at(11)); state.Remaining != 90 || !state.Allowed {
		t.Errorf("after less was used %+v", state)
	}
	meter.Settle(at(0), 150, at(12)) // it used more than was reserved, which is known now
	if state := meter.Peek(at(12)); state.Remaining != 0 || state.Allowed || state.RetryAfter != 60*time.Second {
		t.Errorf("after more was used %+v", state)
	}
	meter.Settle(at(0), -1000, at(62)) // not more than was taken
	if state := meter.Peek(at(74)); state.Remaining != 100 || state.ResetAfter != 0 {
		t.Errorf("after a minute %+v", state)
	}
	meter.Settle(at(0), -10, at(80)) // long forgotten
	if state := meter.Take(1000, at(80)); !state.Allowed || state.Remaining != 0 {
		t.Errorf("more than the limit, alone %+v", state)
	}
	if state := meter.Take(1000, at(81)); state.Allowed {
		t.Errorf("more than the limit, not alone %+v", state)
	}
}
