package pairs_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

// happening is something that may happen to a request.
type happening struct {
	name string
	try  func(*cell)
}

func happenings() []happening {
	return []happening{
		{"rate limit", rateLimit},
		{"key limit", keyLimit},
		{"instances of a key", placedKey},
		{"member for operators of engines", operatedMember},
		{"token in place of a key", callerToken},
		{"key that sleeps", sleepingKey},
		{"target of the first token", target},
		{"budget of money", moneyBudget},
		{"usage without detail", scantUsage},
		{"limit of a run", runLimit},
		{"budget with a vanished model and fallbacks", vanishedModel},
		{"fallback", fallback},
		{"fallback without a price in a run", unpricedFallback},
		{"sleeping model", sleepingModel},
		{"LoRA adapter", adapter},
		{"process", process},
		{"hedge", hedge},
		{"resume", resume},
		{"scatter", scatter},
		{"answer cache", answerCache},
		{"answer cache in a run without money", cacheWithoutMoney},
		{"single flight", singleFlight},
		{"a step that refuses", refusingStep},
		{"terms that change meanwhile", changingTerms},
		{"client leaves", leavingClient},
		{"client leaves while the model sleeps", leavingHeld},
		{"backend dies", dyingBackend},
		{"gateway stops", stoppingGateway},
	}
}

func instance(url string, more ...string) string { return gatewaytest.Instance("m", url, more...) }

// prices make a request of every door cost something.
const prices = "prices: {models: [{model: '*', input: 1000000, output: 1000000, minute: 200}]}\n"

// shapeOfErrors returns a part of every error with the status 400 that the API of the door has.
func (c *cell) shapeOfErrors() string {
	switch c.door.name {
	case "messages":
		return `{"type":"error","error":{"type":"`
	case "responses over WebSocket", "realtime":
		return `{"type":"error",`
	case "Ollama":
		return `{"error":"`
	case "Gemini":
		return `"status":"INVALID_ARGUMENT"`
	}
	return `{"error":{"message":"`
}

func (c *cell) isBatch() bool { return c.door.name == "batch line" }

// rateLimit reaches the rate limit of the service type.
func rateLimit(c *cell) {
	_, url := startEngine(c.T)
	c.start(settings{policy: "rate-limit: {enabled: true, algorithm: leaky-bucket, capacity: 1, refill-rate: 1}", instances: []string{instance(url)}})
	if c.isBatch() {
		// The limit recovers each second, which is how long lines wait for it.
		for range 2 {
			c.answers(c.ask("m"))
		}
		return
	}
	c.answers(c.ask("m"))
	const most = 50 // the machine may be slow
	for range most {
		if r := c.ask("m"); !r.isWhole {
			c.refuses(r, http.StatusTooManyRequests, "rate_limit_exceeded")
			return
		}
	}
	c.Error("no request was refused")
}

// keyLimit reaches a limit of the caller's key.
func keyLimit(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{terms: "limits: {requests-per-minute: 1}", instances: []string{instance(url)}})
	c.answers(c.ask("m"))
	if c.isBatch() {
		c.waits(e, "m", nil) // for the rest of the minute
		return
	}
	c.refuses(c.ask("m"), http.StatusTooManyRequests, "key_rate_limited")
	c.has(e, 1)
}

// placedKey has a key that is limited to one of two instances: nothing goes to the other, also
// when its own fails.
func placedKey(c *cell) {
	a, other := startEngine(c.T)
	b, url := startEngine(c.T)
	c.start(settings{terms: "instances: ['*@" + url + "*']", instances: []string{instance(other), instance(url)}})
	for range 3 {
		c.answers(c.ask("m"))
	}
	c.has(b, 3)
	if !c.isBatch() { // which would wait for its instance
		b.is(fails)
		if r := c.ask("m"); r.isWhole {
			c.Error("it was answered by nobody")
		}
	}
	c.has(a, 0)
}

// operatedMember names a member that is meant for the operator of the engine.
func operatedMember(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{instances: []string{instance(url, "adapter: vllm")}})
	c.refuses(c.ask("m"+memberMark+"bootstrap_host"), http.StatusBadRequest, "member_not_allowed")
	c.has(e, 0)
}

// callerToken asks with the token of an issuer: it is let in with the terms of its rule, counted for
// its subject, and not passed on.
func callerToken(c *cell) {
	gatewaytest.Needs(c.T, "callertokens")
	issuer := jwttest.New(c.T)
	e, url := startEngine(c.T)
	forwards := "forward-authorization: true"
	if c.isBatch() { // which has no credential to forward
		forwards = "forward-authorization: false"
	}
	c.start(settings{
		instances: []string{instance(url, forwards), gatewaytest.Instance("other", url)},
		security: ", jwt: [{name: company, issuer: https://login.example, audience: gateway, jwks-url: '" + issuer.URL +
			"', claims: {user: email}, rules: [{claim: groups, value: dev, tenant: acme, terms: {models: [m]}}]}]",
	})
	sign := func(groups ...string) {
		c.Credential = []string{"Authorization", "Bearer " + issuer.Sign(jwttest.Claims("https://login.example", "gateway", "ada",
			map[string]any{"groups": groups, "email": "ada@example.com"}))}
	}
	sign("dev")
	c.answers(c.ask("m"))
	c.has(e, 1)
	if forwarded := e.credential(); strings.Contains(forwarded, ".") {
		c.Errorf("the backend got %s", forwarded)
	}
	gatewaytest.Eventually(c.T, "the call is listed for its user", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/monitoring/calls?user=ada@example.com&tenant=acme", "", "Authorization", "Bearer admin-token").
			Succeeds(c.T).Body, `"keyId":"jwt:company:`)
	})
	c.refuses(c.ask("other"), http.StatusForbidden, "permission_denied")
	if !c.isBatch() { // whose file would be refused
		sign("ops")
		c.refuses(c.ask("m"), http.StatusForbidden, "permission_denied")
	}
	c.has(e, 1)
}

// sleepingKey asks with the key of a person who leaves the tenant after the first request.
func sleepingKey(c *cell) {
	gatewaytest.Needs(c.T, "selfservice")
	e, url := startEngine(c.T)
	c.start(settings{
		security: ", tenants: [{name: acme}]", instances: []string{instance(url)},
		wings: []wing.New{gatewaytest.People(gatewaytest.Person("ann", "acme", access.Member))},
	})
	header, session := gatewaytest.As("ann")
	own := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](c.T, c.API(http.MethodPost, "/api/me/keys", "{}", header, session).Is(c.T, http.StatusCreated))
	c.Credential = []string{"Authorization", "Bearer " + own.Key}
	ask := c.talk("m")
	c.answers(ask(gatewaytest.Deadline(c.T)))
	c.SignIn(gatewaytest.Person("ann", "other", access.Member))
	if c.isBatch() { // of which already the file is refused
		c.Do(http.MethodPost, "/v1/files", "", c.Credential...).FailsWith(c.T, http.StatusUnauthorized, "authentication_error", "invalid_api_key", "")
	} else {
		c.refuses(ask(gatewaytest.Deadline(c.T)), http.StatusUnauthorized, "invalid_api_key")
	}
	c.has(e, 1)
	c.SignIn(gatewaytest.Person("ann", "acme", access.Member))
	c.answers(c.ask("m"))
}

// target asks for the first token within a time, which is long enough.
func target(c *cell) {
	_, url := startEngine(c.T)
	c.start(settings{instances: []string{instance(url)}})
	c.Credential = append(bearer(c.Gateway), account.TargetHeader, "600000")
	c.answers(c.ask("m"))
	if c.isBatch() { // whose lines have no headers
		return
	}
	gatewaytest.Eventually(c.T, "the record says that it was kept", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/monitoring/calls", "", "Authorization", "Bearer admin-token").
			Succeeds(c.T).Body, `"ttftTargetMet":true`)
	})
}

// moneyBudget asks for more than is left of a budget.
func moneyBudget(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{terms: "budgets: {total: {cost: 1}}", sections: prices, instances: []string{instance(url)}})
	c.refuses(c.ask("m"), http.StatusTooManyRequests, "budget_exceeded")
	c.has(e, 0)
}

// scantUsage asks backends that report only a total, or zeros: the answers cost something, and the
// ledger has what was reported.
func scantUsage(c *cell) {
	for m, tokens := range map[mode]int64{totals: 30, zeros: 0} {
		e, url := startEngine(c.T)
		e.is(m)
		c.start(settings{sections: prices, instances: []string{instance(url)}})
		c.answers(c.ask("m"))
		c.counts(1, tokens, true)
	}
}

// runLimit asks for more than a run of an agent may have. The client is told that a person must decide.
func runLimit(c *cell) {
	gatewaytest.Needs(c.T, "runs")
	e, url := startEngine(c.T)
	c.start(settings{sections: "runs: {enabled: true, limits: {requests: 1}}\n", instances: []string{instance(url)}})
	if c.isBatch() { // which is a run of its own
		for n := range 2 {
			batch := sendBatch(c.T, c.Gateway, "m", 2)
			c.answers(endOfBatch(gatewaytest.Deadline(c.T), c.T, c.Gateway, batch))
			failed := c.failedLines(batch)
			if strings.Count(failed, `"status_code":400`) != 1 || codeIn(failed) != "run_limit_reached" {
				c.Errorf("the other line: %s", failed)
			}
			c.has(e, n+1)
		}
		return
	}
	named := func(run string) func(context.Context) result {
		c.Credential = nil
		c.Credential = append(bearer(c.Gateway), "X-Router-Run", run)
		return c.talk("m")
	}
	ask := named("task")
	c.answers(ask(gatewaytest.Deadline(c.T)))
	refused := ask(gatewaytest.Deadline(c.T))
	c.refuses(refused, http.StatusBadRequest, "run_limit_reached")
	for _, part := range []string{c.shapeOfErrors(), "This run has used 1 of 1 requests"} {
		if !strings.Contains(refused.text, part) {
			c.Errorf("the client is not told %s: %s", part, refused.text)
		}
	}
	isFinal := refused.header.Get("X-Should-Retry") == "false" || strings.Contains(refused.text, `"x-should-retry":"false"`)
	if !isFinal {
		c.Errorf("the client may try again: %v", refused)
	}
	c.has(e, 1)
	c.answers(named("another")(gatewaytest.Deadline(c.T)))
}

// vanishedModel asks for a model that no instance has any more, where the key may not use the
// one that takes over.
func vanishedModel(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{
		policy: "fallbacks: {gone: [m]}", terms: "models: [gone], budgets: {total: {tokens: 100000}}",
		instances: []string{instance(url), "{base-url: '" + url + "', models: discover}"},
	})
	if c.isBatch() { // it may come back
		c.waits(e, "gone", func() {
			c.change(func(s *settings) { s.instances = append(s.instances, gatewaytest.Instance("gone", url)) })
		})
		return
	}
	r := c.ask("gone")
	switch c.door.name {
	case "Ollama", "Gemini": // whose clients know this of their own servers
		c.refuses(r, http.StatusNotFound, "model_not_found")
	default:
		c.refuses(r, http.StatusServiceUnavailable, "service_unavailable")
	}
	c.has(e, 0)
}

// fallback asks for a model whose instance fails.
func fallback(c *cell) {
	a, failing := startEngine(c.T)
	b, url := startEngine(c.T)
	a.is(fails)
	c.start(settings{policy: "fallbacks: {first: [m]}", instances: []string{gatewaytest.Instance("first", failing), instance(url)}})
	c.answers(c.ask("first"))
	c.has(a, 1)
	c.has(b, 1)
}

// unpricedFallback asks in a run with a limit of money for a model that fails, while only one without a
// price could take over.
func unpricedFallback(c *cell) {
	gatewaytest.Needs(c.T, "runs")
	a, failing := startEngine(c.T)
	b, url := startEngine(c.T)
	a.is(fails)
	c.start(settings{
		policy:    "fallbacks: {first: [m]}",
		sections:  "prices: {models: [{model: first, input: 1, output: 1, minute: 1}]}\nruns: {enabled: true, unpriced: refuse, limits: {cost: 100}}\n",
		instances: []string{gatewaytest.Instance("first", failing), instance(url)},
	})
	c.Credential = append(bearer(c.Gateway), "X-Router-Run", "task")
	if c.isBatch() { // whose lines wait until the model is well
		ended := c.later(gatewaytest.Deadline(c.T), "first")
		a.hasCalls(c.T, 1)
		a.is(answers)
		c.answers(<-ended)
	} else if r := c.ask("first"); r.isWhole {
		c.Errorf("got %s, want an error", r)
	}
	c.has(b, 0)
}

// sleepingModel asks for a model that is not in memory.
func sleepingModel(c *cell) {
	e, url := startEngine(c.T)
	e.asleep = true
	c.start(settings{policy: "residency: {enabled: true}", instances: []string{instance(url, "adapter: vllm")}})
	c.answers(c.ask("m"))
	if _, _, wakes := e.state(); wakes != 1 {
		c.Errorf("the model was woken %d times", wakes)
	}
}

// adapter asks for a LoRA adapter that is loaded for the request, at an engine that has lost it the
// next time.
func adapter(c *cell) {
	gatewaytest.Needs(c.T, "loras")
	e, url := startEngine(c.T)
	e.isAdapted = true
	c.start(settings{sections: "loras: {adapters: {m: {base: base, path: /l/m}}}\n", instances: []string{gatewaytest.Instance("base", url, "adapter: vllm")}})
	for want := range 2 {
		c.answers(c.ask("m"))
		if loads := e.loseAdapter(); loads != want+1 {
			c.Errorf("the adapter was loaded %d times, want %d", loads, want+1)
		}
	}
}

// process asks for a model whose server does not run.
func process(c *cell) {
	program, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	c.start(settings{
		sections:  fmt.Sprintf("processes: {p: {command: [%q, %s, $PORT], start-timeout: 2m}}\n", program, serverWord),
		instances: []string{"{name: m, process: p}"},
	})
	r := c.ask("m")
	c.answers(r)
	if waited := r.header.Get("X-Router-Wait-Ms"); r.header != nil && waited == "" {
		c.Error("the reply does not tell that it waited")
	}
}

// hedge asks an instance that takes much longer than such calls do.
func hedge(c *cell) {
	a, slow := startEngine(c.T)
	_, url := startEngine(c.T)
	c.start(settings{policy: "hedge: {enabled: true}", instances: []string{instance(slow), instance(url)}})
	ask := c.talk("m")
	const learned = 50
	for range learned {
		c.answers(ask(gatewaytest.Deadline(c.T)))
	}
	service, err := schema.ParseServiceType(c.door.service)
	if err != nil {
		c.Fatal(err)
	}
	pool := c.Current.Load().Service(service).Find("m")
	for range 1000 { // as if a quiet time had been, so that a second call is allowed
		pool.Watch.Called()
	}
	a.is(hangs)
	for range 2 { // one of them goes to the slow one first
		c.answers(ask(gatewaytest.Deadline(c.T)))
	}
	a.isFree(c.T)
	c.slotsAreFree()
}

// resume breaks a stream after its first words.
func resume(c *cell) {
	a, breaking := startEngine(c.T)
	b, url := startEngine(c.T)
	a.is(cuts)
	c.start(settings{
		policy:    "streams: {resume: continue}",
		instances: []string{instance(breaking, "adapter: vllm"), instance(url, "adapter: vllm", "tier: 1")},
	})
	r := c.ask("m")
	c.answers(r)
	if strings.Count(r.text, "Hello") == 0 || !strings.Contains(r.text, " there") {
		c.Errorf("the client got %s", r.text)
	}
	c.has(a, 1)
	c.has(b, 1)
}

// scatter splits a request over two instances.
func scatter(c *cell) {
	a, one := startEngine(c.T)
	b, other := startEngine(c.T)
	c.start(settings{policy: "split: {max-split: 2, min-inputs: 2, min-tokens: 1}", instances: []string{instance(one), instance(other)}})
	c.answers(c.ask("m"))
	c.has(a, 1)
	c.has(b, 1)
}

// answerCache asks for the same twice.
func answerCache(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{sections: "answer-cache: {services: [chat, embedding, rerank]}\n", instances: []string{instance(url)}})
	for range 2 {
		c.answers(c.ask("m"))
	}
	c.has(e, 1)
}

// cacheWithoutMoney asks in a run whose limit is below the cost of one call: what is kept costs nothing
// and is answered, unless such answers are charged, and all else is refused.
func cacheWithoutMoney(c *cell) {
	gatewaytest.Needs(c.T, "runs")
	for _, isCharged := range []bool{false, true} {
		e, url := startEngine(c.T)
		c.start(settings{
			sections: prices + fmt.Sprintf("answer-cache: {services: [chat, embedding, rerank], charge-hits: %t}\n", isCharged) +
				"runs: {enabled: true, limits: {cost: 1}}\n",
			instances: []string{instance(url), gatewaytest.Instance("n", url)},
		})
		c.answers(c.ask("m"))
		c.Credential = append(bearer(c.Gateway), "X-Router-Run", "task")
		if kept := c.ask("m"); isCharged {
			c.refuses(kept, http.StatusBadRequest, "run_limit_reached")
		} else {
			c.answers(kept)
		}
		c.refuses(c.ask("n"), http.StatusBadRequest, "run_limit_reached")
		c.has(e, 1)
	}
}

// singleFlight asks for the same twice at the same time.
func singleFlight(c *cell) {
	e, url := startEngine(c.T)
	e.is(hangs)
	c.start(settings{sections: "answer-cache: {single-flight: true}\n", instances: []string{instance(url)}})
	first := c.later(gatewaytest.Deadline(c.T), "m")
	e.hasCalls(c.T, 1)
	second := c.later(gatewaytest.Deadline(c.T), "m")
	gatewaytest.Eventually(c.T, "the second follows the first", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/answer-cache", "", "Authorization", "Bearer admin-token").Body, `"followers":1`)
	})
	e.is(answers)
	c.answers(<-first)
	c.answers(<-second)
	c.has(e, 1)
}

// refusingStep has a guard between admission and routing that refuses everything.
func refusingStep(c *cell) {
	e, url := startEngine(c.T)
	guard := func(context.Context, *account.Account) (account.Answer, error) {
		return nil, &schema.Error{Message: "The guard refuses this.", Type: schema.TypeInvalidRequest, Code: "invalid_value"}
	}
	c.start(settings{instances: []string{instance(url)}, steps: []account.Step{guard}})
	c.refuses(c.ask("m"), http.StatusBadRequest, "invalid_value")
	c.has(e, 0)
}

// changingTerms takes the budget of a key away between two requests of one conversation.
func changingTerms(c *cell) {
	e, url := startEngine(c.T)
	c.start(settings{terms: "tenant: acme", sections: prices, instances: []string{instance(url)}})
	ask := c.talk("m")
	c.answers(ask(gatewaytest.Deadline(c.T)))
	c.tenant(`{"budgets":{"total":{"cost":1}}}`)
	c.refuses(ask(gatewaytest.Deadline(c.T)), http.StatusTooManyRequests, "budget_exceeded")
	c.has(e, 1)
}

// leavingClient leaves while the backend works.
func leavingClient(c *cell) {
	e, url := startEngine(c.T)
	e.is(hangs)
	c.start(settings{terms: "budgets: {total: {requests: 10}}", instances: []string{instance(url)}})
	ctx, leave := context.WithCancel(gatewaytest.Deadline(c.T))
	defer leave()
	ended := c.later(ctx, "m")
	e.hasCalls(c.T, 1)
	leave()
	if r := <-ended; r.isWhole {
		c.Errorf("got %s", r)
	}
	e.isFree(c.T)
	c.slotsAreFree()
	gatewaytest.Eventually(c.T, "nothing is reserved any more", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Body, `"reserved":0`)
	})
	if _, failure, _ := gatewaytest.Outcomes(c.Current.Load().Instances()[0]); failure != 0 {
		c.Error("the instance is blamed for a client that left")
	}
}

// leavingHeld has a client leave before the model is awake: no call was made, and none is counted.
func leavingHeld(c *cell) {
	e, url := startEngine(c.T)
	e.asleep = true
	e.is(sleeps)
	c.start(settings{policy: "residency: {enabled: true}", terms: "budgets: {total: {requests: 10}}", sections: prices,
		instances: []string{instance(url, "adapter: vllm")}})
	ctx, leave := context.WithCancel(gatewaytest.Deadline(c.T))
	defer leave()
	ended := c.later(ctx, "m")
	gatewaytest.Eventually(c.T, "the engine is told to wake up", func() bool {
		_, _, wakes := e.state()
		return wakes > 0
	})
	leave()
	<-ended
	c.slotsAreFree()
	gatewaytest.Eventually(c.T, "the call is recorded without an attempt", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/monitoring/calls", "", "Authorization", "Bearer admin-token").Body, `"attempts":0`)
	})
	c.counts(0, 0, false)
	c.has(e, 0)
}

// dyingBackend has a backend break the connection before it answers, beside one that is well.
func dyingBackend(c *cell) {
	a, broken := startEngine(c.T)
	b, url := startEngine(c.T)
	a.is(dies)
	c.start(settings{instances: []string{instance(broken), instance(url, "tier: 1")}})
	c.answers(c.ask("m"))
	c.has(a, 1)
	c.has(b, 1)
	a.isFree(c.T)
}

// stoppingGateway stops the gateway while a backend works, for longer than the gateway waits.
func stoppingGateway(c *cell) {
	e, url := startEngine(c.T)
	e.is(hangs)
	c.start(settings{sections: "server: {shutdown-grace: 100ms}\n", instances: []string{instance(url)}})
	ended := c.later(gatewaytest.Deadline(c.T), "m")
	e.hasCalls(c.T, 1)
	c.Stop(context.Background())
	r := <-ended
	if r.isWhole {
		c.Errorf("got %s", r)
	}
	if !c.isBatch() && r.code != "service_unavailable" && !strings.Contains(r.text, "shutting down") {
		c.Errorf("the client was not told why: %s", r)
	}
	e.isFree(c.T)
}
