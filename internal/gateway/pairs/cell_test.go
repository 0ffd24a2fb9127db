package pairs_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// cell is a door together with something that may happen.
type cell struct {
	*testing.T
	door door
	*gatewaytest.Gateway
	settings settings
}

// settings are what the gateway of a cell is started with.
type settings struct {
	policy    string // of the service type
	terms     string // of the key
	security  string // more of it
	sections  string
	instances []string
	steps     []account.Step
	wings     []wing.New
}

func (s settings) yaml(of door) string {
	members := []string{gatewaytest.NoBreakerNoChecks, "instances: [" + strings.Join(s.instances, ", ") + "]"}
	if s.policy != "" {
		members = append(members, s.policy)
	}
	terms := ""
	if s.terms != "" {
		terms = ", " + s.terms
	}
	return "services: {" + of.service + ": {" + strings.Join(members, ", ") + "}}\n" +
		"security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: " + gatewaytest.HashOf("admin-token") +
		"}], keys: [{id: k, key-sha256: " + gatewaytest.HashOf(key) + terms + "}]" + s.security + "}\n" +
		of.sections + "quota: {enabled: true}\n" + s.sections
}

// start starts the gateway of the cell.
func (c *cell) start(s settings) {
	c.Helper()
	if c.door.wing != "" {
		gatewaytest.Needs(c.T, c.door.wing)
	}
	c.settings = s
	c.Gateway = gatewaytest.StartWith(c.T, gatewaytest.Setup{YAML: s.yaml(c.door), Steps: s.steps, Wings: s.wings, AnswerTokens: 50})
}

// change changes the settings while the gateway runs.
func (c *cell) change(edit func(*settings)) {
	c.Helper()
	edit(&c.settings)
	c.ReloadWith(c.settings.yaml(c.door))
}

// talk begins a conversation about a model.
func (c *cell) talk(model string) (ask func(context.Context) result) {
	c.Helper()
	return c.door.open(c.T, c.Gateway, model)
}

// ask asks once, in a conversation of its own.
func (c *cell) ask(model string) result {
	c.Helper()
	return c.talk(model)(gatewaytest.Deadline(c.T))
}

// later asks in the background.
func (c *cell) later(ctx context.Context, model string) <-chan result {
	c.Helper()
	ask, ended := c.talk(model), make(chan result, 1)
	go func() { ended <- ask(ctx) }()
	return ended
}

// answers fails unless a request is answered whole.
func (c *cell) answers(r result) {
	c.Helper()
	if !r.isWhole {
		c.Errorf("got %s", r)
	}
}

// refuses fails unless a request is refused with a status and a code.
func (c *cell) refuses(r result, status int, code string) {
	c.Helper()
	if r.isWhole || r.err != nil || r.status != status && r.status != untold || r.code != code {
		c.Errorf("got %s; want %d %s", r, status, code)
	}
}

// waits fails unless a line of a batch is not sent while something is in its way: a batch has
// time, and what passes is no fault of its lines. The line is to be answered when that is lifted;
// where nothing lifts it, the batch is cancelled.
func (c *cell) waits(e *engine, model string, lift func()) {
	c.Helper()
	before, _, _ := e.state()
	ctx, leave := context.WithCancel(gatewaytest.Deadline(c.T))
	defer leave()
	ended := c.later(ctx, model)
	gatewaytest.Eventually(c.T, "the batch says what it waits for", func() bool {
		return strings.Contains(c.Do(http.MethodGet, "/api/batches", "", "Authorization", "Bearer admin-token").Body, `"problem":"`)
	})
	if now, _, _ := e.state(); now != before {
		c.Errorf("the line was sent all the same")
	}
	if lift == nil {
		leave()
		<-ended
		return
	}
	lift()
	c.answers(<-ended)
}

// failedLines returns the lines of a batch that failed.
func (c *cell) failedLines(batch string) string {
	c.Helper()
	file, _ := gatewaytest.DecodeObject(c.T, c.Do(http.MethodGet, "/v1/batches/"+batch, "", bearer(c.Gateway)...).Succeeds(c.T).Body)["error_file_id"].(string)
	return c.Do(http.MethodGet, "/v1/files/"+file+"/content", "", bearer(c.Gateway)...).Succeeds(c.T).Body
}

// tenant changes the terms of the tenant acme.
func (c *cell) tenant(terms string) {
	c.Helper()
	c.API(http.MethodPut, "/api/config/terms/tenants/acme", terms, "Authorization", "Bearer admin-token").Is(c.T, http.StatusOK)
}

// has fails unless an engine has had so many calls.
func (c *cell) has(e *engine, want int) {
	c.Helper()
	if calls, _, _ := e.state(); calls != want {
		c.Errorf("the engine has had %d calls, want %d", calls, want)
	}
}

// counts fails unless the ledger gets so many requests and tokens, and a cost if they are paid.
func (c *cell) counts(requests, tokens int64, arePaid bool) {
	c.Helper()
	type counted struct {
		Requests int64   `json:"requestCount"`
		Tokens   int64   `json:"tokenCount"`
		Cost     float64 `json:"cost"`
	}
	gatewaytest.Eventually(c.T, fmt.Sprintf("the ledger has %d requests, %d tokens, cost %t", requests, tokens, arePaid), func() bool {
		var sum counted
		for _, one := range gatewaytest.DataOf[[]counted](c.T, c.API(http.MethodGet, "/api/monitoring/quota/usage?window=DAY", "",
			"Authorization", "Bearer admin-token").Is(c.T, http.StatusOK)) {
			sum.Requests, sum.Tokens, sum.Cost = sum.Requests+one.Requests, sum.Tokens+one.Tokens, sum.Cost+one.Cost
		}
		return sum.Requests == requests && sum.Tokens == tokens && sum.Cost > 0 == arePaid
	})
}

// slotsAreFree waits until no instance has a request.
func (c *cell) slotsAreFree() {
	c.Helper()
	gatewaytest.Eventually(c.T, "the slots are free", func() bool {
		return !slices.ContainsFunc(c.Current.Load().Instances(), func(i *backend.Instance) bool { return i.InFlight() > 0 })
	})
}

func (r result) String() string {
	return fmt.Sprintf("%d %s, whole %t, %v: %.300s", r.status, r.code, r.isWhole, r.err, r.text)
}
