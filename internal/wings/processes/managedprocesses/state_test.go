package managedprocesses

import (
	"log/slog"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// A scrape has one series for each state of a process, and how often it was started.
func TestAScrapeHasTheProcesses(t *testing.T) {
	options := processes.Options{Log: slog.New(slog.DiscardHandler)}
	h := &host{manager: processes.New(processes.Settings{"qwen": {Command: []string{"true"}}}, 0, options)}
	t.Cleanup(h.manager.Close)
	settings := metrics.DefaultSettings()
	e, err := metrics.NewExposition(metrics.Options{
		Registry: metrics.NewRegistry(&settings), State: func(to *metrics.State) { h.state(to, time.Now()) }, Failed: t.FailNow,
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, f := range all {
		series[f.GetName()] = len(f.Metric)
	}
	if series["model_router_process_state"] != len(processes.States()) || series["model_router_process_starts_total"] != 1 ||
		series["model_router_process_restarts_total"] != 1 {
		t.Errorf("%v", series)
	}
}
