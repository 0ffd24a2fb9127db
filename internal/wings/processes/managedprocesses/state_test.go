package managedprocesses

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/wings/processes"
)

// TestAScrapeHasTheProcesses has one process that nobody needed yet, and one whose address is
// taken, so that it fails and is started again twice.
func TestAScrapeHasTheProcesses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	var text map[string]float64
	synctest.Test(t, func(t *testing.T) {
		ready := "http://" + taken.Addr().String()
		h := &host{manager: processes.New(processes.Settings{
			"idle": {Command: []string{"true"}, Ready: ready},
			"qwen": {Command: []string{"true"}, Ready: ready, Restarts: 2},
		}, 0, processes.Options{Log: slog.New(slog.DiscardHandler)})}
		defer h.manager.Close()
		if err := h.manager.Servers()["qwen"].Wake(t.Context()); !errors.Is(err, processes.ErrFailed) {
			t.Fatalf("the process is started although its address is taken: %v", err)
		}
		text = scrapeOf(t, h)
	})
	want := map[string]float64{
		"model_router_process_starts_total idle": 0, "model_router_process_restarts_total idle": 0,
		"model_router_process_starts_total qwen": 3, "model_router_process_restarts_total qwen": 2,
	}
	for _, state := range processes.States() {
		want["model_router_process_state idle "+string(state)] = 0
		want["model_router_process_state qwen "+string(state)] = 0
	}
	want["model_router_process_state idle "+string(processes.Stopped)] = 1
	want["model_router_process_state qwen "+string(processes.Failed)] = 1
	for series, value := range want {
		if got, there := text[series]; !there || got != value {
			t.Errorf("%s is %v (there: %v), want %v", series, got, there, value)
		}
	}
	for series := range text {
		if _, wanted := want[series]; !wanted {
			t.Errorf("there is %s", series)
		}
	}
}

// scrapeOf returns the values of a scrape of processes by the names and labels of their series.
func scrapeOf(t *testing.T, h *host) map[string]float64 {
	t.Helper()
	settings := metrics.DefaultSettings()
	e, err := metrics.NewExposition(metrics.Options{
		Registry: metrics.NewRegistry(&settings), State: func(to *metrics.State) { h.state(to, time.Now()) }, Families: families[:], Failed: t.FailNow,
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := e.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			name, isOfProcess := f.GetName(), false
			for _, label := range m.Label {
				name += " " + label.GetValue()
				isOfProcess = isOfProcess || label.GetName() == "process"
			}
			if isOfProcess {
				values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return values
}
