// This file belongs to the wing runs.

package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// inRedis is the configuration of gateways that share what they count.
func inRedis(redis *storetest.Server) string {
	return fmt.Sprintf("redis: {url: %s}\nquota: {distributed: {enabled: true, timeout: 2s}}\n", gatewaytest.Quote(redis.URL))
}

// inDatabase is the configuration of gateways that share a database, by url or config.
func inDatabase(t *testing.T, setting string) string {
	return "store: {" + setting + ": " + gatewaytest.Quote(storetest.Postgres(t).URL) + "}\n"
}

// team starts gateways with one configuration that know each other.
func team(t *testing.T, count int, yaml string) (all []*gatewaytest.Gateway) {
	t.Helper()
	for range count {
		all = append(all, gatewaytest.Start(t, yaml))
	}
	for _, r := range all {
		gatewaytest.Eventually(t, "the gateways know each other", func() bool { return r.Shared.Members() == count })
	}
	return all
}

// Gateways that share nothing but the limits of runs count a run together, and divide the rest while
// their Redis is away.
func TestGatewaysThatShareOnlyRunsCountThemTogether(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	all := team(t, 3, governed(b, "limits: {requests: 9}")+inRedis(redis))
	for n := range 6 {
		turn(all[n%3], "task", small).Succeeds(t)
	}
	for _, r := range all {
		gatewaytest.Eventually(t, "each gateway knows of all requests", func() bool {
			return listRuns(t, r, "?search=task")[0].Used.Requests == 6
		})
	}
	redis.Kill()
	var passed atomic.Int64
	for _, r := range all {
		gatewaytest.Eventually(t, "the outage is noticed", r.Shared.IsAway)
		for range 3 {
			if turn(r, "task", small).Status == http.StatusOK {
				passed.Add(1)
			}
		}
	}
	if got := passed.Load(); got != 3 {
		t.Errorf("%d of the last 3 requests passed while Redis was away", got)
	}
}

// A list has the runs of all gateways that share a database, and any of them raises and ends them. With
// Redis alone the gateway that serves a run does. An end with now=true cuts the calls wherever they are,
// within five seconds.
func TestRunsOfAllGatewaysAreListedRaisedAndEnded(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]func(t *testing.T) string{
		"Redis":         func(t *testing.T) string { return inRedis(storetest.Redis(t)) },
		"database":      func(t *testing.T) string { return inDatabase(t, "url") },
		"configuration": func(t *testing.T) string { return inDatabase(t, "config") },
		"both":          func(t *testing.T) string { return inRedis(storetest.Redis(t)) + inDatabase(t, "config") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := gatewaytest.StartHeldBackend(t)
			yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL)) + priced +
				"runs: {enabled: true, limits: {requests: 4}}\n" + shared(t)
			one, other := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
			asked := other // to raise and end the run
			stream := strings.Replace(small, "{", `{"stream":true,`, 1)
			var running sync.WaitGroup
			var cut [2]gatewaytest.Reply
			var ended [2]time.Time
			call := func(i int, at *gatewaytest.Gateway) {
				running.Go(func() {
					cut[i] = turn(at, "task", stream)
					ended[i] = time.Now()
				})
				<-held.Entered
			}
			call(0, one)
			if name == "Redis" {
				if list := listRuns(t, other, ""); len(list) != 0 {
					t.Errorf("%+v", list)
				}
				asked = one
			}
			gatewaytest.Eventually(t, "a gateway lists the run", func() bool { return len(listRuns(t, asked, "")) == 1 })
			found := listRuns(t, asked, "")[0]
			if found.Name != "task" || found.Sign != "x-router-run" || found.Limits.Requests != 4 ||
				(name == "Redis" || name == "both") && found.State != "RUNNING" {
				t.Errorf("%+v", found)
			}
			if shown := showRun(t, asked, found.ID); shown.Name != "task" {
				t.Errorf("%+v", shown)
			}
			call(1, other)
			asked.API(http.MethodPost, "/api/runs/"+found.ID+"/raise", `{"requests":2}`).Is(t, 200)
			for _, r := range []*gatewaytest.Gateway{one, other} {
				gatewaytest.Eventually(t, "the raise reaches each gateway", func() bool {
					return showRun(t, r, found.ID).Limits.Requests == 6
				})
			}
			began := time.Now()
			asked.API(http.MethodPost, "/api/runs/"+found.ID+"/end?now=true", "").Is(t, 200)
			running.Wait()
			for i := range cut {
				if took := ended[i].Sub(began); took > 5*time.Second || !strings.Contains(cut[i].Body, "run_ended") {
					t.Errorf("after %v: %d %s", took, cut[i].Status, cut[i].Body)
				}
			}
			for _, r := range []*gatewaytest.Gateway{one, other} {
				if refused := turn(r, "task", small); codeOf(refused) != "run_ended" {
					t.Errorf("%d %s", refused.Status, refused.Body)
				}
			}
			one.API(http.MethodPost, "/api/runs/"+found.ID+"/raise", "").Is(t, 200)
			close(held.Open)
			for _, r := range []*gatewaytest.Gateway{one, other} {
				gatewaytest.Eventually(t, "the run goes on at both", func() bool {
					return turn(r, "task", stream).Status == http.StatusOK
				})
			}
		})
	}
}

// Gateways that share nothing but the database of the ledger know each other's use of a run after the
// interval in which it is written.
func TestGatewaysThatShareADatabaseCountRunsTogether(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	yaml := governed(b, "limits: {requests: 4}") + "quota: {flush-interval-seconds: 1}\nstore: {url: " +
		gatewaytest.Quote(storetest.Postgres(t).URL) + "}\n"
	one, other := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	for range 3 {
		turn(one, "task", small).Succeeds(t)
	}
	knows := func(r *gatewaytest.Gateway, requests int64) {
		t.Helper()
		gatewaytest.Eventually(t, "a gateway knows of the requests at the other one", func() bool {
			found := listRuns(t, r, "")
			return len(found) == 1 && found[0].Used.Requests == requests
		})
	}
	knows(other, 3)
	turn(other, "task", small).Succeeds(t)
	if refused := turn(other, "task", small); codeOf(refused) != "run_limit_reached" {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
	knows(one, 4)
	if refused := turn(one, "task", small); codeOf(refused) != "run_limit_reached" {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
	third := gatewaytest.Start(t, yaml) // it was not there when the run began
	knows(third, 4)
	if refused := turn(third, "task", small); codeOf(refused) != "run_limit_reached" {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
}
