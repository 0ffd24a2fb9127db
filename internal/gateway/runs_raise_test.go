// This file belongs to the wing runs.

package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// led returns a gateway with a run of the tenant red that is stopped for a loop, the path of the run, and
// its data directory. Bob leads the tenant.
func led(t *testing.T) (r *gatewaytest.Gateway, path, dir string) {
	t.Helper()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	dir = t.TempDir()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{
		DataDir: dir,
		YAML: governed(b, "limits: {requests: 50, tokens: 100000, cost: 100000, time: 2h}, loops: {repeats: 3, action: stop}") +
			"security: {enabled: true, tenants: [{name: red}], " +
			"tokens: [{name: o, role: OPERATOR, token-sha256: " + gatewaytest.HashOf("operator-token") + "}], " +
			"keys: [{id: k, tenant: red, runs: {requests: 10, tokens: 50000, cost: 50000, time: 1h}, key-sha256: " + gatewaytest.HashOf("secret") + "}]}\n",
		Wings: []wing.New{gatewaytest.People(gatewaytest.Person("bob", "red", access.TeamAdmin))},
	})
	for range 2 {
		turn(r, "task", small, "Authorization", "Bearer secret").Succeeds(t)
	}
	if got := codeOf(turn(r, "task", small, "Authorization", "Bearer secret")); got != "run_loops" {
		t.Fatalf("got %q, want run_loops", got)
	}
	header, bob := gatewaytest.As("bob")
	found := gatewaytest.DataOf[[]runNamed](t, r.API(http.MethodGet, "/api/runs", "", header, bob))
	return r, "/api/runs/" + found[0].ID, dir
}

// A raise that is refused changes nothing of the run, what is shown and what is kept.
func TestARefusedRaiseChangesNothing(t *testing.T) {
	t.Parallel()
	r, path, dir := led(t)
	header, bob := gatewaytest.As("bob")
	asOperator := []string{"Authorization", "Bearer operator-token"}
	kept := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "runs.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	state := func() string { return string(r.API(http.MethodGet, path, "", asOperator...).Is(t, 200).Data) + kept() }
	refuses := func(what, body string, status int) {
		t.Helper()
		before := state()
		for _, query := range []string{"", "?dryRun=true"} {
			if got := r.Do(http.MethodPost, path+"/raise"+query, body, header, bob); got.Status != status {
				t.Errorf("%s%s: got %d %s, want %d", what, query, got.Status, got.Body, status)
			}
			if after := state(); after != before {
				t.Errorf("%s%s: got\n%s\nwant\n%s", what, query, after, before)
			}
		}
	}
	r.API(http.MethodPost, path+"/raise", `{"requests":1}`, header, bob).Is(t, 200) // writes the file
	for range 2 {
		turn(r, "task", small, "Authorization", "Bearer secret").Succeeds(t)
	}
	turn(r, "task", small, "Authorization", "Bearer secret").FailsWith(t, 400, "invalid_request_error", "run_loops", "")
	gatewaytest.Eventually(t, "the second stop is written", func() bool { return strings.Contains(kept(), ` 2 1"`) })
	for _, beyond := range []string{`{"requests":40}`, `{"tokens":50001}`, `{"cost":"50000.01"}`, `{"time":"61m"}`, `{"time":"1m","requests":40}`} {
		refuses("beyond the limits: "+beyond, beyond, 400)
	}
	r.API(http.MethodPost, path+"/end", "", asOperator...).Is(t, 200)
	for _, body := range []string{"", `{"requests":1}`} {
		refuses("ended by an operator: "+body, body, 403)
	}
}

// Raises at the same moment do not together pass a limit that each alone keeps.
func TestRaisesAtTheSameMomentKeepTheLimit(t *testing.T) {
	t.Parallel()
	r, path, _ := led(t)
	header, bob := gatewaytest.As("bob")
	var done sync.WaitGroup
	var made atomic.Int64
	for range 16 {
		done.Go(func() {
			for range 8 {
				switch got := r.Do(http.MethodPost, path+"/raise", `{"requests":1,"tokens":2000}`, header, bob); got.Status {
				case 200:
					made.Add(1)
				case 400:
				default:
					t.Errorf("got %d %s", got.Status, got.Body)
				}
			}
		})
	}
	done.Wait()
	got := gatewaytest.DataOf[struct {
		Limits struct {
			Requests int64 `json:"requests"`
			Tokens   int64 `json:"tokens"`
		} `json:"limits"`
	}](t, r.API(http.MethodGet, path, "", header, bob).Is(t, 200))
	if l := got.Limits; made.Load() != 25 || l.Requests != 35 || l.Tokens != 100_000 {
		t.Errorf("%d raises were made, and the limits are %+v, want 25, 35 requests and 100000 tokens", made.Load(), l)
	}
}

// An answer from the cache costs nothing, and is given in a run whose limit of money is below what the call
// would reserve.
func TestALimitBelowOneReservationLeavesTheCacheFree(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache")
	for name, more := range map[string]string{"likely": "", "most": ", reserve: most"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(answer(15, 5))
			r := gatewaytest.Start(t, governed(b, "limits: {cost: 5}"+more)+cacheOn)
			exact := strings.Replace(small, "{", `{"temperature":0,`, 1)
			cacheIs(t, r.Chat(exact), "miss")
			for range 2 {
				turn(r, "task", small).FailsWith(t, 400, "invalid_request_error", "run_limit_reached", "")
				cacheIs(t, turn(r, "task", exact), "hit")
			}
			if got := len(b.Requests()); got != 1 {
				t.Errorf("the backend got %d requests, want 1", got)
			}
			if found := listRuns(t, r, ""); len(found) != 1 || found[0].Used.Cost != "0" {
				t.Errorf("got %+v, want a run that has cost nothing", found)
			}
		})
	}
}
