// This file belongs to the wing runs.

package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const priced = "prices: {models: [{model: m, input: 1000000, output: 1000000}]}\n" // each token costs one

// governed returns a configuration with runs that have these settings.
func governed(b *simulator.Backend, settings string) string {
	return gatewaytest.PoolYAML(b) + priced + "runs: {enabled: true, " + settings + "}\n"
}

// turn sends a request of a run.
func turn(r *gatewaytest.Gateway, name, body string, header ...string) gatewaytest.Reply {
	return r.Chat(body, append([]string{"X-Router-Run", name}, header...)...)
}

// codeOf returns the code of an error.
func codeOf(reply gatewaytest.Reply) string {
	var body struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(reply.Body), &body, json.MatchCaseInsensitiveNames(true)) // an answer has none
	return body.Error.Code
}

const chatPath = "/v1/chat/completions"

const small = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`

// runShown is a run as operations show it.
type runShown struct {
	ID, Name, Sign, Key, Tenant, State, Code, Reason string
	UnderWay                                         int
	Last                                             time.Time
	Used, Reserved, Limits, Raised                   struct {
		Cost             string
		Tokens, Requests int64
	}
	Loop  *struct{ Rule, Action string }
	Calls []struct {
		Run  string
		Cost int64
	}
}

func listRuns(t *testing.T, r *gatewaytest.Gateway, query string) (found []runShown) {
	t.Helper()
	reply := r.API(http.MethodGet, "/api/runs"+query, "").Is(t, 200)
	if err := json.Unmarshal(reply.Data, &found, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return found
}

func showRun(t *testing.T, r *gatewaytest.Gateway, id string) (found runShown) {
	t.Helper()
	reply := r.API(http.MethodGet, "/api/runs/"+id, "").Is(t, 200)
	if err := json.Unmarshal(reply.Data, &found, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return found
}

// A run that has used up its limit is refused in words that tell what to do, others are not, and a
// raise lets it go on, also after a restart.
func TestARunStopsAtItsLimitAndGoesOnAfterARaise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limits, used, raise string }{
		"money":    {"cost: 40", "40 of 40 USD", `{"cost":40}`},
		"tokens":   {"tokens: 40", "40 of 40 tokens", `{"tokens":40}`},
		"requests": {"requests: 2", "2 of 2 requests", `{"requests":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(answer(15, 5))
			setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: governed(b, "limits: {"+test.limits+"}")}
			r := gatewaytest.StartWith(t, setup)
			for range 2 {
				turn(r, "task", small).Succeeds(t)
			}
			refused := turn(r, "task", small)
			if refused.Status != 400 || codeOf(refused) != "run_limit_reached" || refused.Header.Get("X-Should-Retry") != "false" {
				t.Fatalf("%d %v %s", refused.Status, refused.Header, refused.Body)
			}
			turn(r, "another", small).Succeeds(t)
			r.Chat(small).Succeeds(t) // of no run
			found := listRuns(t, r, "?search=task")
			if len(found) != 1 || found[0].State != "STOPPED" || found[0].Used.Requests != 2 || found[0].Used.Cost != "40" || found[0].Sign != "x-router-run" {
				t.Fatalf("%+v", found)
			}
			if !strings.Contains(refused.Body, test.used) || !strings.Contains(refused.Body, "patchbay runs raise "+found[0].ID) {
				t.Errorf("%s", refused.Body)
			}
			// Neither a restart nor time gives it more.
			r.Halt()
			r = gatewaytest.StartWith(t, setup)
			if again := turn(r, "task", small); codeOf(again) != "run_limit_reached" {
				t.Fatalf("after a restart: %d %s", again.Status, again.Body)
			}
			r.API(http.MethodPost, "/api/runs/"+found[0].ID+"/raise", test.raise).Is(t, 200)
			r.Halt()
			r = gatewaytest.StartWith(t, setup)
			for range 2 {
				turn(r, "task", small).Succeeds(t)
			}
			if again := turn(r, "task", small); codeOf(again) != "run_limit_reached" {
				t.Errorf("beyond the raise: %d %s", again.Status, again.Body)
			}
			if shown := showRun(t, r, found[0].ID); shown.Used.Requests != 4 || shown.Used.Tokens != 80 {
				t.Errorf("%+v", shown)
			}
		})
	}
}

// An operator ends a run; calls in progress are cut where that is asked for.
func TestAnEndedRunIsRefusedUntilItIsRaised(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL))+"runs: {enabled: true}\n")
	var running sync.WaitGroup
	var cut gatewaytest.Reply
	streamed := strings.Replace(small, "{", `{"stream":true,`, 1)
	running.Go(func() { cut = turn(r, "task", streamed) })
	<-held.Entered
	found := listRuns(t, r, "")
	if len(found) != 1 || found[0].State != "RUNNING" || found[0].UnderWay != 1 {
		t.Fatalf("%+v", found)
	}
	r.API(http.MethodPost, "/api/runs/"+found[0].ID+"/end?now=true", "").Is(t, 200)
	running.Wait()
	if !strings.Contains(cut.Body, "run_ended") || strings.Contains(cut.Body, "last") {
		t.Errorf("the call in progress: %d %s", cut.Status, cut.Body)
	}
	if refused := turn(r, "task", small); codeOf(refused) != "run_ended" || refused.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
	if shown := showRun(t, r, found[0].ID); shown.State != "ENDED" {
		t.Errorf("%+v", shown)
	}
	r.API(http.MethodPost, "/api/runs/"+found[0].ID+"/raise", "").Is(t, 200)
	close(held.Open)
	turn(r, "task", streamed).Succeeds(t)
	r.API(http.MethodPost, "/api/runs/run_0/end", "").Is(t, 404)
}

// Calls of an ended run are cut also while monitoring is off: the stream ends with the reason, its
// backend is free, and what it worked is paid.
func TestAnEndedRunIsCutWithoutMonitoring(t *testing.T) {
	t.Parallel()
	for name, isHTTP2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := gatewaytest.StartHeldBackend(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{HTTP2: isHTTP2, YAML: gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL)) +
				priced + gatewaytest.QuotaOn + "runs: {enabled: true}\nmonitoring: {enabled: false}\n"})
			stream := r.ChatLater(gatewaytest.Deadline(t), strings.Replace(small, "{", `{"stream":true,`, 1), "X-Router-Run", "task")
			<-held.Entered
			id := listRuns(t, r, "")[0].ID
			r.API(http.MethodPost, "/api/runs/"+id+"/end?now=true", "").Is(t, 200)
			if cut := <-stream; !strings.Contains(cut.Body, "run_ended") || strings.Contains(cut.Body, "last") {
				t.Errorf("the call in progress: %d %s", cut.Status, cut.Body)
			}
			gatewaytest.Eventually(t, "the backend is free, and the call is settled", func() bool {
				shown := showRun(t, r, id)
				return r.Instances("m")[0].InFlight() == 0 && shown.UnderWay == 0 && shown.Reserved.Tokens == 0
			})
			if shown, got := showRun(t, r, id), counted(t, r); shown.Used.Requests != 1 || shown.Used.Tokens < 2 ||
				got.RequestCount != 1 || got.Cost != shown.Used.Tokens*1_000_000 {
				t.Errorf("the run has %+v, the ledger %+v", shown, got)
			}
			if n := gatewaytest.At(t, r.GetObject("/api/monitoring/running"), "total"); n != 0.0 {
				t.Errorf("%v requests are shown", n)
			}
		})
	}
}

// Requests of one run that come at once never pass its limit together.
func TestParallelRequestsDoNotPassTheLimitOfARun(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(3, 5)) // less than is reserved
	r := gatewaytest.Start(t, governed(b, "limits: {cost: 100}"))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := turn(r, "task", small); got.Status != 200 && codeOf(got) != "budget_reserved" && codeOf(got) != "run_limit_reached" {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	if used := listRuns(t, r, "")[0].Used; used.Tokens > 100 || used.Tokens == 0 {
		t.Errorf("%+v", used)
	}
}

func TestTheStrictestLimitOfARunHolds(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	yaml := governed(b, "limits: {requests: 4}") + fmt.Sprintf("security: {enabled: true, tenants: [{name: red, runs: {requests: 2}}], tokens: [{name: a, role: ADMIN, token-sha256: %s}], keys: [", gatewaytest.HashOf("admin-token"))
	for _, key := range []struct{ id, members string }{{"wide", ""}, {"narrow", ", runs: {requests: 1}"}, {"red", ", tenant: red, runs: {requests: 3}"}} {
		yaml += fmt.Sprintf("{id: %s, key-sha256: %s%s},", key.id, gatewaytest.HashOf(key.id), key.members)
	}
	r := gatewaytest.Start(t, strings.TrimSuffix(yaml, ",")+"]}\n")
	for key, most := range map[string]int{"wide": 4, "narrow": 1, "red": 2} {
		passed := 0
		for range 6 {
			if turn(r, "task", small, bearer(key)...).Status == 200 {
				passed++
			}
		}
		if passed != most {
			t.Errorf("%s: %d requests of a run pass, want %d", key, passed, most)
		}
	}
	r.API(http.MethodPost, "/api/auth/keys", `{"id":"new","runs":{"requests":-1}}`, "Authorization", "Bearer admin-token").Is(t, 400, "runs.requests")
}

// A client asks for less money, for its run from now on.
func TestAClientAsksForLess(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	r := gatewaytest.Start(t, governed(b, "limits: {cost: 100}"))
	for asked, status := range map[string]int{"x": 400, "0": 400, "-1": 400, "101": 400} {
		if got := turn(r, "other", small, "X-Router-Run-Limit-Cost", asked); got.Status != status || codeOf(got) != "invalid_value" {
			t.Errorf("%s: %d %s", asked, got.Status, got.Body)
		}
	}
	turn(r, "task", small, "X-Router-Run-Limit-Cost", "40").Succeeds(t)
	turn(r, "task", small).Succeeds(t)
	if got := turn(r, "task", small); codeOf(got) != "run_limit_reached" || !strings.Contains(got.Body, "40 of 40 USD") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := turn(r, "task", small, "X-Router-Run-Limit-Cost", "50"); codeOf(got) != "invalid_value" {
		t.Errorf("more than before: %d %s", got.Status, got.Body)
	}
}

// The raise that a refusal names is enough for the request, however small the limit is, and no number of
// raises ends a run.
func TestTheRaiseThatARefusalNamesIsEnough(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(5, 5))
	r := gatewaytest.Start(t, governed(b, "limits: {tokens: 3, time: 1h}"))
	refused := turn(r, "task", small)
	if codeOf(refused) != "run_limit_reached" {
		t.Fatalf("%d %s", refused.Status, refused.Body)
	}
	found := regexp.MustCompile("raise (run_[0-9a-f]+) --tokens ([0-9]+)`").FindStringSubmatch(refused.Body)
	if found == nil {
		t.Fatalf("%s", refused.Body)
	}
	r.API(http.MethodPost, "/api/runs/"+found[1]+"/raise", `{"tokens":`+found[2]+`}`).Is(t, 200)
	turn(r, "task", small).Succeeds(t)
	for range 300 { // more than 292 years
		r.API(http.MethodPost, "/api/runs/"+found[1]+"/raise", `{"time":"8784h","tokens":100}`).Is(t, 200)
	}
	turn(r, "task", small).Succeeds(t)
	if health := r.Do(http.MethodGet, "/actuator/health", "").Body; !strings.Contains(health, `"runsJournal"`) || !strings.Contains(health, `"runsDatabase"`) {
		t.Errorf("%s", health)
	}
}

func TestModelsWithoutAPriceInARunWithALimitOfMoney(t *testing.T) {
	t.Parallel()
	for setting, status := range map[string]int{"refuse": 400, "warn": 200, "allow": 200} {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"runs: {enabled: true, unpriced: "+setting+", limits: {cost: 1}}\n")
		if got := turn(r, "task", small); got.Status != status {
			t.Errorf("%s: %d %s", setting, got.Status, got.Body)
		}
	}
}

// A model without a price takes over from no other in such a run, whatever the reason.
func TestModelsWithoutAPriceTakeOverInNoRunWithALimitOfMoney(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script simulator.Step
		body   string
		status int
		part   string // of the reply
	}{
		"a failure":                    {simulator.Step{Status: 503}, small, 503, "upstream_error"},
		"a stream":                     {sayEvents(""), streamThree, 200, "upstream_stream_truncated"},
		"a model that no instance has": {simulator.Step{}, strings.Replace(small, `"m"`, `"gone"`, 1), 400, "run_limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, free := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			own.ScriptForever(test.script)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("streams: {resume: continue, resume-fallbacks: true}, fallbacks: {m: [free], gone: [free]}, "+
				gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", own.URL(), "adapter: vllm"), gatewaytest.Instance("free", free.URL(), "adapter: vllm"),
				"{base-url: '"+own.URL()+"', models: discover}")+
				"prices: {models: [{model: m, input: 1, output: 1}]}\nruns: {enabled: true, unpriced: refuse, limits: {cost: 1}}\n")
			if got := turn(r, "task", test.body); got.Status != test.status || !strings.Contains(got.Body, test.part) || free.Stats().Arrived != 0 {
				t.Errorf("got %d after %d calls of the other model: %s; want %d with %s after none",
					got.Status, free.Stats().Arrived, got.Body, test.status, test.part)
			}
			if got := r.Chat(test.body).Succeeds(t); free.Stats().Arrived != 1 {
				t.Errorf("outside of runs the other model had no call: %s", got.Body)
			}
		})
	}
}

// A call that is ended before its answer begins has cost its prompt, whoever ends it, and one that
// an operator ends is stopped. Answered pieces of a split request are paid as reported.
func TestCallsThatAreEndedBeforeTheirAnswerArePaid(t *testing.T) {
	t.Parallel()
	type call struct {
		ID, Outcome, Status string
		ErrorCode           string
		Cost                float64
	}
	list := func(r *gatewaytest.Gateway, path string) (all struct {
		Calls   []call
		Running []struct{ RequestID string }
	}) {
		_ = json.Unmarshal([]byte(r.Do(http.MethodGet, path, "").Succeeds(t).Body), &all, json.MatchCaseInsensitiveNames(true))
		return all
	}
	const inputs = `{"model":"m","input":["one text","one text","one text","one text"]}`
	want := map[string]float64{}
	for _, test := range []struct{ path, body, how, outcome string }{
		{chatPath, small, "leave", "gone"},
		{chatPath, small, "stop", "stopped"},
		{chatPath, small, "end", "stopped"},
		{"/v1/embeddings", inputs, "leave", "gone"},
		{"/v1/embeddings", inputs, "stop", "stopped"},
		{"/v1/embeddings", inputs, "end", "stopped"},
	} {
		t.Run(test.how+test.path, func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			b.ScriptForever(simulator.Step{Hang: true})
			if test.path == chatPath {
				a.ScriptForever(simulator.Step{Hang: true})
			}
			r := gatewaytest.Start(t, "services:\n  chat: {"+gatewaytest.NoBreakerNoChecks+", instances: ["+gatewaytest.Instance("m", b.URL())+"]}\n"+
				"  embedding: {split: {max-split: 2, min-inputs: 2, min-tokens: 1}, "+gatewaytest.NoBreakerNoChecks+", instances: ["+
				gatewaytest.Instance("m", a.URL())+", "+gatewaytest.Instance("m", b.URL())+"]}\n"+
				"prices: {models: [{model: m, input: 1000, output: 2000}]}\nquota: {enabled: true}\nruns: {enabled: true, limits: {cost: 100}}\n")
			ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
			defer leave()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if response, err := r.Client.Do(r.Request(ctx, http.MethodPost, test.path, test.body, "X-Router-Run", "task")); err == nil {
					gatewaytest.ReadReply(response)
				}
			}()
			gatewaytest.Eventually(t, "the backend has the call, and the other piece is answered", func() bool {
				served := test.path == chatPath
				for _, i := range r.Current.Load().Instances() {
					success, _, _ := gatewaytest.Outcomes(i)
					served = served || success == 1
				}
				return served && b.Stats().Arrived == 1
			})
			switch test.how {
			case "leave":
				leave()
			case "stop":
				r.Do(http.MethodPost, "/api/monitoring/running/"+list(r, "/api/monitoring/running").Running[0].RequestID+"/stop", "{}").Succeeds(t)
			case "end":
				r.API(http.MethodPost, "/api/runs/"+listRuns(t, r, "")[0].ID+"/end?now=true", "").Is(t, 200)
			}
			<-ended
			var got []call
			gatewaytest.Eventually(t, "the call is recorded", func() bool {
				got = list(r, "/api/monitoring/calls").Calls
				return len(got) == 1
			})
			if want[test.path] == 0 {
				want[test.path] = got[0].Cost
			}
			if got[0].Outcome != test.outcome || got[0].Cost == 0 || got[0].Cost != want[test.path] {
				t.Errorf("got %+v, want the outcome %s and the cost %v", got[0], test.outcome, want[test.path])
			}
		})
	}
}

// A run that goes round in circles is noted, or stopped until somebody raises it.
func TestARunThatLoopsIsStopped(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: governed(b, "loops: {repeats: 3, action: stop}")}
	r := gatewaytest.StartWith(t, setup)
	for range 2 {
		turn(r, "task", small).Succeeds(t)
	}
	refused := turn(r, "task", small)
	if refused.Status != 400 || codeOf(refused) != "run_loops" || !strings.Contains(refused.Body, "the same request again and again (3 in a row)") {
		t.Fatalf("%d %s", refused.Status, refused.Body)
	}
	found := listRuns(t, r, "")
	if found[0].State != "STOPPED" || found[0].Loop == nil || found[0].Loop.Rule != "SAME_CALL" {
		t.Errorf("%+v", found[0])
	}
	different := strings.Replace(small, "hi", "bye", 1)
	r.Halt()
	r = gatewaytest.StartWith(t, setup)
	if got := turn(r, "task", different); codeOf(got) != "run_loops" {
		t.Errorf("after a restart: %d %s", got.Status, got.Body)
	}
	r.API(http.MethodPost, "/api/runs/"+found[0].ID+"/raise", "{}").Is(t, 200)
	turn(r, "task", different).Succeeds(t)
}

// The calls of a run are listed with it.
func TestTheCallsOfARunAreShown(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, governed(b, ""))
	turn(r, "task", small).Succeeds(t)
	turn(r, "other", small).Succeeds(t)
	id := listRuns(t, r, "?search=task")[0].ID
	gatewaytest.Eventually(t, "the call is listed", func() bool {
		shown := showRun(t, r, id)
		return len(shown.Calls) == 1 && shown.Calls[0].Run == id
	})
}

// An administrator of a team raises a run within the terms of the tenant and, without any, within the
// limits of the gateway; and lets no run go on that an operator has ended.
func TestWhatAdministratorsOfATeamMayRaise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tenant string // the terms of the tenant
		most   int    // requests that a run may get
	}{
		"without terms":         {"", 5},
		"with terms":            {", runs: {requests: 3}", 3},
		"with terms for others": {", runs: {tokens: 100000}", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				YAML: governed(b, "limits: {requests: 5}") + "security: {enabled: true, tenants: [{name: red" + c.tenant + "}], " +
					"tokens: [{name: o, role: OPERATOR, token-sha256: " + gatewaytest.HashOf("operator-token") + "}], " +
					"keys: [{id: k, tenant: red, runs: {requests: 2}, key-sha256: " + gatewaytest.HashOf("secret") + "}]}\n",
				Wings: []wing.New{gatewaytest.People(gatewaytest.Person("bob", "red", access.TeamAdmin))},
			})
			header, bob := gatewaytest.As("bob")
			turn(r, "task", small, "Authorization", "Bearer secret").Succeeds(t)
			found := gatewaytest.DataOf[[]runNamed](t, r.API(http.MethodGet, "/api/runs", "", header, bob))
			path := "/api/runs/" + found[0].ID
			for n, step := range []struct {
				as, do, body string
				status       int
			}{
				{bob, "/raise", fmt.Sprintf(`{"requests":%d}`, c.most-1), 400},
				{bob, "/raise", `{"requests":1000000000000000}`, 400},
				{bob, "/raise", `{"cost":"9000000"}`, 200}, // no limit of money is to be passed
				{bob, "/raise", fmt.Sprintf(`{"requests":%d}`, c.most-2), 200},
				{bob, "/end", "", 200},
				{bob, "/raise", "", 200},
				{bob, "/end", "", 200},
				{"operator", "/end", "", 200},
				{bob, "/raise", "", 403},
				{bob, "/raise?dryRun=true", "", 403},
				{bob, "/end", "", 200},
				{bob, "/raise", "", 403},
				{"operator", "/raise", "", 200},
				{bob, "/end", "", 200},
				{bob, "/raise", "", 200},
			} {
				as := [2]string{header, step.as}
				if step.as == "operator" {
					as = [2]string{"Authorization", "Bearer operator-token"}
				}
				if got := r.Do(http.MethodPost, path+step.do, step.body, as[0], as[1]); got.Status != step.status {
					t.Errorf("step %d, %s %s: %d %s, want %d", n, step.do, step.body, got.Status, got.Body, step.status)
				}
			}
		})
	}
}

type runNamed struct {
	ID string `json:"id"`
}

// A request that its key, its models or the service refuse begins no run.
func TestRefusedRequestsBeginNoRun(t *testing.T) {
	t.Parallel()
	key := func(terms string) string {
		return "security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: " + gatewaytest.HashOf("admin-token") + "}], " +
			"keys: [{id: k, key-sha256: " + gatewaytest.HashOf("secret") + ", " + terms + "}]}\n"
	}
	for name, c := range map[string]struct{ policy, terms, body, code string }{
		"limit of the key":     {"", "limits: {requests-per-minute: 1}", small, "key_rate_limited"},
		"budget of the key":    {"", "budgets: {day: {requests: 1}}", small, "budget_exceeded"},
		"model":                {"", "models: [m]", strings.Replace(small, `"m"`, `"n"`, 1), "permission_denied"},
		"limit of the service": {", rate-limit: {enabled: true, algorithm: sliding-window, capacity: 1, refill-rate: 1}", "models: [m]", small, "rate_limit_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreaker+c.policy, gatewaytest.Instance("m", b.URL()))+"runs: {enabled: true}\n"+key(c.terms))
			turn(r, "first", small, "Authorization", "Bearer secret").Succeeds(t)
			for n := range 3 {
				if reply := turn(r, fmt.Sprint("other", n), c.body, "Authorization", "Bearer secret"); codeOf(reply) != c.code {
					t.Errorf("%d %s, want %s", reply.Status, reply.Body, c.code)
				}
			}
			if found := gatewaytest.DataOf[[]runNamed](t, r.API(http.MethodGet, "/api/runs", "", "Authorization", "Bearer admin-token")); len(found) != 1 {
				t.Errorf("%d runs", len(found))
			}
		})
	}
}
