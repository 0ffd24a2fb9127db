package live

import (
	"fmt"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

func tenantCall(tenant string, ended time.Time, result schema.Result) calls.Record {
	return calls.Record{
		Tenant: tenant, Started: ended.Add(-time.Second), Ended: time.Second, Result: result, Attempts: 1,
		Usage: schema.Usage{Known: true, Prompt: 2, Completion: 3}, Cost: 1_500_000,
	}
}

func TestTenantsHaveAHistoryOfTheirRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	refused := tenantCall("bot", r.now, schema.ResultRateLimited)
	refused.Attempts, refused.Cost, refused.Usage = 0, 0, schema.Usage{}
	gone := tenantCall("bot", r.now, schema.ResultFailed)
	gone.Gone = true
	r.Note([]calls.Record{
		tenantCall("bot", r.now, schema.ResultSuccess), refused, refused, gone, tenantCall("bot", r.now, schema.ResultTimedOut),
		tenantCall("other", r.now, schema.ResultSuccess), tenantCall("", r.now, schema.ResultSuccess),
	})
	r.pass(2)
	h := r.History(Query{Metrics: Metrics(), By: ByTenant, Range: FiveMinutes})
	if len(h.Series) != 2 || h.Series[0].Tenant != "bot" || h.Series[1].Tenant != "other" {
		t.Fatalf("the series: %+v", h.Series)
	}
	one := h.Series[0]
	got := last(one.Requests.Answered, 1) + last(one.Requests.Failed, 1) + last(one.Requests.Limited, 1) + " " + last(one.Tokens.Output, 1) + " " + last(*one.Cost, 1)
	if got != "212 9 5" { // 4.5 millionths are rounded
		t.Errorf("answered, failed, limited, tokens, cost: %s", got)
	}
	if one.Latency.P95[h.Points-2] == nil || one.Overhead != nil {
		t.Errorf("latency %v, overhead %v", one.Latency.P95[h.Points-2], one.Overhead)
	}
	if h := r.History(Query{Metrics: []Metric{Requests}, By: ByTenant, Tenant: "other", Range: OneDay}); len(h.Series) != 1 || h.Series[0].Tenant != "other" || h.Series[0].Cost != nil {
		t.Errorf("of one tenant: %+v", h.Series)
	}
}

func TestTenantsCanBeReadBeforeTheFirstSample(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.second = 0
	r.Note([]calls.Record{tenantCall("bot", r.now, schema.ResultSuccess)})
	if h := r.History(Query{Metrics: Metrics(), By: ByTenant, Range: FiveMinutes}); len(h.Series) != 1 || last(h.Series[0].Requests.Answered, 0) != "null" {
		t.Errorf("%+v", h.Series)
	}
}

func TestARecordThatComesLateCountsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	r.pass(400)
	r.Note([]calls.Record{tenantCall("bot", r.now.Add(-350*time.Second), schema.ResultSuccess)})
	h := r.History(Query{Metrics: []Metric{Requests}, By: ByTenant, Range: FiveMinutes})
	if got := last(h.Series[0].Requests.Answered, 0); got != "1" {
		t.Errorf("answered now: %s", got)
	}
}

// TestARequestOfTheSecondThatGoesOnHidesNoOtherOne: its step is after those that are shown, and
// takes the place of none of them.
func TestARequestOfTheSecondThatGoesOnHidesNoOtherOne(t *testing.T) {
	t.Parallel()
	for within := range Range(sampledRanges) {
		r := newRig(t, "a") // at the beginning of a step of each range
		span := time.Duration(shapes[within].points*shapes[within].step) * time.Second
		r.Note([]calls.Record{tenantCall("bot", r.now, schema.ResultSuccess)})
		r.pass(1)
		r.now = r.now.Add(span - 2*time.Second)
		r.pass(1)
		r.Note([]calls.Record{tenantCall("bot", r.now, schema.ResultFailed)})
		h := r.History(Query{Metrics: []Metric{Requests, Whole}, By: ByTenant, Range: within})
		if one := h.Series[0]; last(one.Requests.Answered, int(h.Points)-1) != "1" || one.Whole.Requests != 1 {
			t.Errorf("%v: answered in the first step %s, in all %d", within, last(one.Requests.Answered, int(h.Points)-1), one.Whole.Requests)
		}
	}
}

func TestHistoryIsBoundedInTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, "a")
	for n := range maxTenants {
		r.Note([]calls.Record{tenantCall(fmt.Sprint("tenant-", n), r.now, schema.ResultSuccess)})
	}
	r.pass(1)
	r.Note([]calls.Record{tenantCall("new", r.now, schema.ResultSuccess)})
	if s := r.History(Query{By: ByTenant, Tenant: "new"}).Series; len(s) != 0 {
		t.Errorf("one more than %d has a history: %+v", maxTenants, s)
	}
	r.pass(idleAfter)
	r.Note([]calls.Record{tenantCall("new", r.now, schema.ResultSuccess)})
	if all, s := r.History(Query{By: ByTenant}).Series, r.History(Query{By: ByTenant, Tenant: "new"}).Series; len(s) != 1 || len(all) != maxTenants {
		t.Errorf("%d series, %d of the new one", len(all), len(s))
	}
}
