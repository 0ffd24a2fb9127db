package actuator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// TestAScrapeHasTheStateOfTheGateway: each part of the state is told by the right names, also where
// the gateway has no such part, and service types that are not configured have no limits.
func TestAScrapeHasTheStateOfTheGateway(t *testing.T) {
	current := new(routing.Current)
	current.Store(new(routing.Table))
	loaded := residency.State{Host: "http://gpu0:11434", Model: "m", Waiting: 2}
	loaded.State = "loaded"
	loaded.Counts = residency.Counts{Loads: 3, Failures: 1, Refusals: 5, Evictions: 2, Sleeps: 4, Waited: 1500 * time.Millisecond}
	full := Options{
		Current: current, Recorder: calls.NewRecorder(metrics.DefaultSettings()), Document: config.Default(),
		Ledger: func() quota.Stats {
			return quota.Stats{Enabled: true, Admitted: 1, Refused: 2, Unsettled: 3, Degradations: 4, Keys: 5, Cells: 6, Overflowed: 7, Uncounted: 8,
				JournalBytes: 9, LastFlushDuration: time.Second, JournalFailures: 10, StoreFailures: 11, CounterFailures: 12}
		},
		Budgets: func() []budget.Use {
			return []budget.Use{{Account: "key/a", Limit: 9, Used: 3, Reserved: 2, Refused: 1, Deferred: 4}}
		},
		Exchange: func() fleet.ExchangeStats {
			return fleet.ExchangeStats{Others: 1, Sent: 2, Received: 3, Foreign: 4, Malformed: 5, Dropped: 6}
		},
		Models:       func(time.Time) []residency.State { return []residency.State{loaded} },
		LinesDropped: func() int64 { return 13 },
		Panics:       func() int64 { return 14 },
	}
	text := scrapeOf(t, full)
	for _, line := range []string{
		`model_router_quota_enabled 1`, `model_router_quota_admitted_requests_total 1`, `model_router_quota_refused_requests_total 2`,
		`model_router_quota_unsettled_total 3`, `model_router_quota_degradations_total 4`, `model_router_quota_keys 5`, `model_router_quota_cells 6`,
		`model_router_quota_overflowed_total 7`, `model_router_quota_uncounted_total 8`, `model_router_quota_journal_bytes 9`,
		`model_router_quota_last_flush_seconds 1`, `model_router_quota_store_failures_total{store="journal"} 10`,
		`model_router_quota_store_failures_total{store="database"} 11`, `model_router_quota_store_failures_total{store="counter"} 12`,
		`model_router_budget_accounts 1`, `model_router_fleet_exchange_gateways 1`, `model_router_fleet_exchange_sent_messages_total 2`,
		`model_router_fleet_exchange_received_messages_total 3`, `model_router_fleet_exchange_ignored_messages_total{reason="secret"} 4`,
		`model_router_fleet_exchange_ignored_messages_total{reason="form"} 5`, `model_router_fleet_exchange_dropped_prompts_total 6`,
		`model_router_model_resident{host="http://gpu0:11434",model="m"} 1`,
		`model_router_model_waiting_requests{host="http://gpu0:11434",model="m"} 2`,
		`model_router_model_waited_seconds_total{host="http://gpu0:11434",model="m"} 1.5`,
		`model_router_model_loads_total{host="http://gpu0:11434",model="m"} 3`,
		`model_router_model_load_failures_total{host="http://gpu0:11434",model="m"} 1`,
		`model_router_model_load_refusals_total{host="http://gpu0:11434",model="m"} 5`,
		`model_router_model_evictions_total{host="http://gpu0:11434",model="m"} 2`,
		`model_router_model_sleeps_total{host="http://gpu0:11434",model="m"} 4`,
		`model_router_log_lines_dropped_total 13`, `model_router_panics_total 14`, `model_router_monitoring_sampling_ratio 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, name := range []string{"model_router_queue_length", "model_router_rate_limit_remaining", "model_router_fleet_trust"} {
		if strings.Contains(text, "\n"+name) {
			t.Errorf("there is a %s of a service type that is not configured", name)
		}
	}
	bare := scrapeOf(t, Options{Current: current, Recorder: full.Recorder, Document: full.Document})
	for _, line := range []string{
		`model_router_quota_enabled 0`, `model_router_shared_limits_healthy 1`, `model_router_fleet_exchange_healthy 1`, `model_router_cluster_healthy 1`,
		`model_router_cluster_members{state="up"} 1`, `model_router_cluster_members{state="away"} 0`, `model_router_config_source_healthy{source="file"} 1`,
		`model_router_config_source_healthy{source="database"} 1`, `model_router_budget_store_healthy{store="redis"} 1`, `model_router_budget_accounts 0`,
	} {
		if !strings.Contains(bare, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// scrapeOf returns a scrape as text.
func scrapeOf(t *testing.T, options Options) string {
	t.Helper()
	a, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	all, err := a.exposition.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range all {
		if err := encoder.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
