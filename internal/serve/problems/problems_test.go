package problems

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// rig is a recorder whose problems are kept.
type rig struct {
	recorder *calls.Recorder
	keeper   *Keeper
}

func newRig() *rig {
	recorder, current := calls.NewRecorder(metrics.DefaultSettings()), new(routing.Current)
	current.Store(&routing.Table{})
	return &rig{recorder, New(recorder, current, func() []budget.Use { return nil })}
}

// try is an attempt at an instance: its status and words; no words means that it answered.
type try struct {
	instance string
	status   int
	words    string
}

// call records a call that ends now.
func (r *rig) call(change func(*calls.Record), tries ...try) {
	c := &calls.Record{Started: time.Now(), Service: schema.Chat, Routed: true, Model: "m", Status: 200, RequestID: "id"}
	for _, one := range tries {
		c.Begin(one.instance, "openai", c.Started)
		if c.Model = calls.ModelOf(one.instance, "m"); one.words == "" {
			c.Code, c.Status = "", 200
			continue
		}
		c.Try().Status = one.status
		c.Fail(schema.CodeUpstreamError, "", say.New("call.status_said", "status", one.status, "words", one.words))
		c.Code, c.Status = schema.CodeUpstreamError, one.status
	}
	if change != nil {
		change(c)
	}
	r.recorder.Finish(c)
}

func (r *rig) report(of Object) Report {
	return r.keeper.Report(time.Now(), func(time.Time, func(Finding)) {}, Question{Object: of, Words: true})
}

// briefly writes problems with their counts: lost, rescued, refused, tried.
func briefly(list []Group) string {
	var out []string
	for i := range list {
		g := &list[i]
		out = append(out, fmt.Sprintf("%s %s %s %d/%d/%d/%d", g.State, g.Object, g.Words, g.Lost, g.Rescued, g.Refused, g.Tried))
	}
	return strings.Join(out, "; ")
}

const flaky, down, other = "flaky@http://gpu:1", "down@http://gpu:1", "flaky@http://gpu:2"

// TestAProblemIsACauseAtAnObject: two models of one host that fail in different ways are two
// problems, the page of each has its own, and a call counts once, where it failed last.
func TestAProblemIsACauseAtAnObject(t *testing.T) {
	t.Parallel()
	r := newRig()
	for n := range 3 {
		r.call(nil, try{flaky, 500, fmt.Sprintf("out of memory at 0x%x for 'prompt %d'", n+16, n)})
		r.call(nil, try{down, 502, "the engine ended"})
	}
	r.call(nil, try{flaky, 500, "Out of memory at 17 for \"x\""}, try{other, 500, "out of memory at 18 for 'y'"})
	r.call(nil, try{flaky, 500, "out of memory at 17 for 'x'"}, try{instance: other})
	const words = " the backend answered with status # out of memory at # for # "
	for name, test := range map[string]struct {
		of   Object
		want string
	}{
		"flaky": {Object{Instance: flaky}, "losing " + flaky + words + "3/1/0/5"},
		"other": {Object{Instance: other}, "losing " + other + words + "1/0/0/1"},
		"down":  {Object{Model: "down"}, "losing " + down + " the backend answered with status # the engine ended 3/0/0/3"},
		"host":  {Object{Host: "gpu:2"}, "losing " + other + words + "1/0/0/1"},
	} {
		if got := briefly(r.report(test.of).Groups); got != test.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, test.want)
		}
	}
	if got := r.report(Object{}); len(got.Groups) != 3 {
		t.Errorf("%s", briefly(got.Groups))
	}
}

// TestModelsOfAHostThatFailAlikeAreOne: without an object they are one problem.
func TestModelsOfAHostThatFailAlikeAreOne(t *testing.T) {
	t.Parallel()
	r := newRig()
	for n := range 5 {
		r.call(nil, try{fmt.Sprintf("m%d@http://gpu:1", n), 503, "loading"})
	}
	got := r.report(Object{})
	if len(got.Groups) != 1 || got.Groups[0].Lost != 5 || len(got.Groups[0].Models) != 5 ||
		got.Said.String() != "m0, m1, m2, … (5) at gpu:1 does not answer. Calls lost: 5. The backend answered with status 503: loading" {
		t.Errorf("%s %s", got.Said, briefly(got.Groups))
	}
	if got := r.report(Object{Model: "m3"}); len(got.Groups) != 1 || got.Groups[0].Lost != 1 {
		t.Errorf("%s", briefly(got.Groups))
	}
}

// A backend that refuses the key of the gateway is not shown as silent.
func TestABackendThatRefusesTheKeyAnswers(t *testing.T) {
	t.Parallel()
	r := newRig()
	for range 2 {
		r.call(func(c *calls.Record) {
			c.Fail(schema.CodeUpstreamAuth, "", say.New("call.credentials"))
			c.Code, c.Status = schema.CodeUpstreamAuth, 502
		}, try{down, 401, "who are you?"})
	}
	if got, want := r.report(Object{}).Said.String(), "down at gpu:1: calls lost: 2, rescued: 0. The backend refused the gateway's credentials."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// refusedBy makes a call one that a limit or budget of an account refused.
func refusedBy(account, code string) func(*calls.Record) {
	return func(c *calls.Record) {
		c.Code, c.Status, c.Told = code, 429, &calls.Told{Said: say.Plain("no"), Of: account}
		if name, ok := strings.CutPrefix(account, "tenant/"); ok {
			c.Tenant = name
		}
	}
}

// TestTheHeadlineWeighs: what is lost now comes before what is refused now, then comes what was
// rescued, and what is quiet is in no headline. Strangers never are.
func TestTheHeadlineWeighs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		is := func(state State, text string) {
			t.Helper()
			if got := r.report(Object{}); got.State != state || !strings.Contains(got.Said.String(), text) {
				t.Errorf("%s %q, want %s %q", got.State, got.Said, state, text)
			}
		}
		is("", "No service has an instance")
		r.call(func(c *calls.Record) {
			c.Code, c.Status, c.Routed, c.Model = schema.CodeInvalidAPIKey, 401, false, ""
		})
		is("", "No service has an instance")
		r.call(nil, try{flaky, 500, "boom"}, try{instance: other})
		is(Rescuing, "flaky at gpu:1: calls rescued: 1. The backend answered with status 500: boom")
		for range 50 {
			r.call(refusedBy("tenant/acme", schema.CodeBudgetExceeded))
		}
		is(Refusing, "Tenant acme is out of its budget, which refused 50 of 50 calls in the last 5 minutes.")
		r.call(nil, try{flaky, 500, "boom"})
		is(Losing, "flaky at gpu:1: calls lost: 1, rescued: 1.") // it answered before
		r.call(nil, try{down, 500, "gone"})
		r.call(nil, try{down, 500, "gone"})
		is(Losing, "down at gpu:1 does not answer. Calls lost: 2. The backend answered with status 500: gone")
		time.Sleep(30 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		r.call(refusedBy("tenant/acme", schema.CodeBudgetExceeded))
		time.Sleep(40 * time.Second) //nolint:forbidigo // the time of a synctest bubble
		is(Refusing, "Tenant acme")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of a synctest bubble
		is("", "No service has an instance")
		if last := r.report(Object{}).Groups; last[len(last)-1].Kind != OfStrangers {
			t.Errorf("%s", briefly(last))
		}
	})
}

// TestAProblemEndsAfterQuietMinutes: it is shown as over, and a later one is new.
func TestAProblemEndsAfterQuietMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		fail := func() { r.call(nil, try{flaky, 500, "boom"}) }
		is := func(want string) {
			t.Helper()
			var got []string
			for _, one := range r.report(Object{}).Groups {
				got = append(got, fmt.Sprint(one.State, " ", one.Lost))
			}
			if strings.Join(got, "; ") != want {
				t.Errorf("%v, want %s", got, want)
			}
		}
		fail()
		time.Sleep(Quiet) //nolint:forbidigo // the time of a synctest bubble
		is("waiting 1")
		fail() // just in time
		is("losing 2")
		ended := time.Now()
		time.Sleep(Quiet + time.Second) //nolint:forbidigo // the time of a synctest bubble
		is("over 2")
		fail()
		is("losing 1; over 2")
		if over := r.report(Object{}).Groups[1]; !over.Last.Equal(ended) {
			t.Errorf("over since %v, want %v", over.Last, ended)
		}
		time.Sleep(forgotten - time.Minute) //nolint:forbidigo // the time of a synctest bubble
		is("over 1")
	})
}

// TestAccountsHaveTheirOwnCounts: the page of a tenant or a key has what its calls met.
func TestAccountsHaveTheirOwnCounts(t *testing.T) {
	t.Parallel()
	r := newRig()
	as := func(tenant, key string) func(*calls.Record) {
		return func(c *calls.Record) { c.Tenant, c.KeyID = tenant, key }
	}
	r.call(as("acme", "one"), try{flaky, 500, "boom"})
	r.call(as("acme", "two"), try{flaky, 500, "boom"}, try{instance: other})
	r.call(as("others", ""), try{flaky, 500, "boom"})
	r.call(refusedBy("tenant/others", schema.CodeKeyRateLimited))
	for account, want := range map[string]string{
		"tenant/acme": "1/1/0/2", "key/two": "0/1/0/1", "tenant/nobody": "",
		"tenant/others": "1/0/0/1 0/0/1/0",
	} {
		var got []string
		for _, one := range r.report(Object{Accounts: []string{account}}).Groups {
			got = append(got, fmt.Sprintf("%d/%d/%d/%d", one.Lost, one.Rescued, one.Refused, one.Tried))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", account, got, want)
		}
	}
}

// TestProblemsAreBounded: whatever callers and backends write, at most so many problems are kept;
// those of requests leave room for the others, and the least recent one goes first.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	for range 20 {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		synctest.Test(t, func(t *testing.T) {
			r := newRig()
			last := map[string]time.Time{}
			for range 1500 {
				time.Sleep(time.Duration(random.IntN(3)) * time.Second) //nolint:forbidigo // the time of a synctest bubble
				n := random.IntN(400)
				switch random.IntN(4) {
				case 0:
					instance := fmt.Sprintf("m%d@http://gpu:%d", n, n)
					r.call(nil, try{instance, 500 + n%3, "boom " + strings.Repeat("x", n%20)})
					last[instance] = time.Now()
				case 1:
					r.call(nil, try{flaky, 500, "boom " + strings.Repeat("y", n%37)})
					last[flaky] = time.Now()
				case 2:
					r.call(func(c *calls.Record) {
						c.Model, c.Asked, c.Code, c.Status = "", fmt.Sprint("asked", n), schema.CodeServiceUnavailable, 503
					})
				default:
					r.call(refusedBy(fmt.Sprint("tenant/t", n), schema.CodeKeyRateLimited))
				}
			}
			r.recorder.Flush()
			kinds, wordings := map[Kind]int{}, 0
			for _, one := range r.keeper.all {
				kinds[one.Kind]++
				if one.Object == flaky && time.Since(one.Last) <= Quiet {
					wordings++
				}
			}
			if len(r.keeper.all) > 200 || kinds[OfRequests] > 50 || wordings > maxWordings+1 ||
				len(r.keeper.open) > len(r.keeper.all) || len(r.keeper.tracked) > maxAccounts {
				t.Errorf("seed %d: %d problems, %v, %d wordings", seed, len(r.keeper.all), kinds, wordings)
			}
			oldest := time.Now()
			for _, one := range r.keeper.all {
				if one.Kind != OfRequests && one.Last.Before(oldest) {
					oldest = one.Last
				}
			}
			for instance, at := range last {
				if at.After(oldest) && len(r.report(Object{Instance: instance}).Groups) == 0 {
					t.Errorf("seed %d: %s of %v is gone, and one of %v is kept", seed, instance, at, oldest)
				}
			}
		})
	}
}

// TestWordsAreNormalised: what differs from one error to the next is taken out.
func TestWordsAreNormalised(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"CUDA out of memory":             "cuda out of memory",
		"Tried to allocate 2.50 GiB.":    "tried to allocate # gib",
		"cannot parse 'a b'; \"c\" d":    "cannot parse # d",
		"can't reach 10.0.0.1:80 now":    "can't reach # now",
		"dial https://x.example/a?b=c":   "dial #",
		"no file /var/lib/x in id=ab":    "no file # in #",
		"request 6f1c-aa 12 34 failed":   "request # failed",
		"it is cut in 'the middle of…":   "it is cut in #",
		"显存不足，需要 24 GB":                  "显存不足需要 # gb",
		strings.Repeat("z", 41) + " end": "# end",
	} {
		if got := normalised(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := normalised(strings.Repeat("word ", 100)); len(got) > maxWords {
		t.Errorf("%d bytes", len(got))
	}
}

// TestSharesCountTheCallsBeforeTheFirstRefusal: two refusals after eight answers are a fifth of
// the last minutes, and not all of what was seen since.
func TestSharesCountTheCallsBeforeTheFirstRefusal(t *testing.T) {
	t.Parallel()
	r := newRig()
	now := time.Now()
	ago := func(before time.Duration, tenant string, then func(*calls.Record)) {
		r.call(func(c *calls.Record) {
			if c.Started, c.Tenant = now.Add(-before), tenant; then != nil {
				then(c)
			}
		})
	}
	ago(time.Hour, "team", nil)
	for range 8 {
		ago(time.Minute, "team", nil)
		ago(time.Minute, "others", nil)
	}
	ago(2*time.Second, "team", refusedBy("tenant/team", schema.CodeBudgetExceeded))
	ago(time.Second, "team", refusedBy("tenant/team", schema.CodeBudgetExceeded))
	groups := r.report(Object{}).Groups
	if len(groups) != 1 || groups[0].CallsRefused != 2 || groups[0].Calls != 10 {
		t.Errorf("%+v", groups)
	}
}

// A model is a finding when every call was lost for a minute. Refused calls and callers that
// disconnect do not count.
func TestModelsThatFail(t *testing.T) {
	t.Parallel()
	k := newRig().keeper
	begin := time.Now()
	note := func(after time.Duration, code string, isGone bool) {
		c := calls.Record{Service: schema.Chat, Model: "m", Started: begin.Add(after), Code: code, Gone: isGone}
		c.Result = schema.ResultOf(code)
		k.note([]calls.Record{c})
	}
	down := func(after time.Duration) (said []string) {
		k.Models(begin.Add(after), func(f Finding) { said = append(said, fmt.Sprint(f.Subject, f.Since.Sub(begin), f.Values)) })
		return said
	}
	const failed, timedOut = schema.CodeServiceUnavailable, schema.CodeUpstreamTimeout
	for _, step := range []struct {
		at     time.Duration
		code   string
		isGone bool
		isDown bool
	}{
		{0, failed, false, false}, {30 * time.Second, timedOut, false, false},
		{40 * time.Second, "", false, false}, {50 * time.Second, failed, false, false},
		{100 * time.Second, schema.CodeKeyRateLimited, false, false}, {115 * time.Second, failed, true, false},
		{110 * time.Second, schema.CodeCircuitBreakerOpen, false, true}, {170 * time.Second, failed, false, true},
		{171 * time.Second, "", true, true}, {172 * time.Second, "", false, false},
		{200 * time.Second, failed, false, false}, {300 * time.Second, failed, false, true},
	} {
		note(step.at, step.code, step.isGone)
		if said := down(step.at); (len(said) == 1) != step.isDown {
			t.Errorf("after %s: %q", step.at, said)
		}
	}
	const want = "chat/m3m20s [model m service chat minutes 1 lost 2]"
	if said := down(300 * time.Second); len(said) != 1 || said[0] != want {
		t.Errorf("%q, want %q", said, want)
	}
	if said := down(300*time.Second + Quiet); len(said) != 0 {
		t.Errorf("after a quarter of an hour: %q", said)
	}
	note(300*time.Second+Quiet, failed, false)
	if said := down(300*time.Second + Quiet); len(said) != 0 {
		t.Errorf("what is over counts again: %q", said)
	}
}
