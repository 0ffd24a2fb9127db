package fleet

import (
	"fmt"
	"testing"
	"time"
)

// TestWholeAnswersGoWhereTheyEndSoonest has an instance that reads faster, and one that writes
// faster. Short answers go to the first, long ones to the second, by the length of what each
// caller got before; who asks for the first token always goes to the first.
func TestWholeAnswersGoWhereTheyEndSoonest(t *testing.T) {
	now := time.Unix(0, 0)
	f := New(Options{}, now)
	all := []*Instance{f.Instance("reads", "m"), f.Instance("writes", "m")}
	ask := func(caller string, toAnswer bool) *Ask {
		return &Ask{Prompt: NewPrompt(f.secret.Load()), Tokens: 1000, ToAnswer: toAnswer, Caller: caller}
	}
	answer := func(at int, caller string, outputs int) {
		call := f.Choose(all[at:at+1], ask(caller, true), now)
		now = now.Add([]time.Duration{100 * time.Millisecond, 400 * time.Millisecond}[at])
		call.First(now)
		now = now.Add(time.Duration(outputs-1) * []time.Duration{20 * time.Millisecond, 10 * time.Millisecond}[at])
		call.End(Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: outputs}, now)
	}
	for n := range 200 {
		answer(n%2, "brief", 5)
		answer(n%2, "lengthy", 500)
	}
	for _, c := range []struct {
		caller   string
		toAnswer bool
		want     string
	}{
		{"brief", true, "reads"}, {"lengthy", true, "writes"}, {"new", true, "writes"},
		{"brief", false, "reads"}, {"lengthy", false, "reads"},
	} {
		call := f.Choose(all, ask(c.caller, c.toAnswer), now)
		if got := call.Instance.Host().Name(); got != c.want {
			t.Errorf("%s, to the answer %t: goes to %s, want %s", c.caller, c.toAnswer, got, c.want)
		}
		if isGiven := call.Estimate.Answer > 0; isGiven != c.toAnswer {
			t.Errorf("%s: %g s for the answer", c.caller, call.Estimate.Answer)
		}
		call.Abort(now)
	}
}

// TestCallersWithKnownLengthsAreBounded lets more callers come than are remembered.
func TestCallersWithKnownLengthsAreBounded(t *testing.T) {
	var l lengths
	for n := range 3 * mostCallers {
		for range fewAnswers {
			l.learn(fmt.Sprint(n), 100)
		}
	}
	if len(l.callers) > mostCallers {
		t.Errorf("%d callers are known", len(l.callers))
	}
	if got := l.expect("another"); got != 100 {
		t.Errorf("a new caller is expected to get %g tokens", got)
	}
	if got := new(lengths).expect("first"); got != firstLength {
		t.Errorf("the first caller is expected to get %g tokens", got)
	}
}
