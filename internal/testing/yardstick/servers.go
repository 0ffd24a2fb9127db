package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
)

// servers are servers of vLLM that somebody else has started, and keeps.
type servers []string

func (s servers) URLs() []string { return s }

func (s servers) Close() {}

// spent returns the tokens of all prompts that the servers looked up in their caches, how many
// they found there, and how many thousands were left for them to compute.
func (s servers) spent() (tokens, cached, busy float64, err error) {
	for _, url := range s {
		metrics, err := readMetrics(url + "/metrics")
		if err != nil {
			return 0, 0, 0, err
		}
		known := false
		for name, value := range metrics {
			switch name, _, _ := strings.Cut(name, "{"); name {
			case "vllm:prefix_cache_queries_total":
				tokens += value
				known = true
			case "vllm:prefix_cache_hits_total":
				cached += value
			}
		}
		if !known {
			return 0, 0, 0, fmt.Errorf("%s does not count what it finds in its cache: is it a vLLM?", url)
		}
	}
	return tokens, cached, (tokens - cached) / 1000, nil
}

// served are the workloads for servers, by name.
var served = []struct {
	name     string
	requests func() []*fleettest.Request
	atOnce   int
}{
	{"desk", fleettest.Desk, 12},
	{"mix", fleettest.Mix, 0},
}

// onServers measures all strategies on servers, which stay as they are: their caches and what the
// routers have learned last from one round to the next, and only words are new. Each measurement
// is printed as a line of JSON as soon as it is there.
func (o *overHTTP) onServers(urls []string, workloads string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engines := servers(urls)
	if _, _, _, err := engines.spent(); err != nil {
		return err
	}
	strategies := strings.Split(o.strategies, ",")
	routers := make([]*process, len(strategies))
	for n, strategy := range strategies {
		router, err := o.startRouter(ctx, strategy, "vllm", urls)
		if err != nil {
			return err
		}
		defer router.stop() //nolint:gocritic // all of them stay up over all rounds
		routers[n] = router
	}
	time.Sleep(settle) //nolint:forbidigo // this is a measurement, no test
	var errs []error
	for _, w := range served {
		if workloads != "" && !strings.Contains(","+workloads+",", ","+w.name+",") {
			continue
		}
		p := &plan{work: "computed", title: fmt.Sprintf("%s on %d servers", w.name, len(urls)),
			run: replay.Run{Requests: w.requests(), Block: fleettest.ServedBlock, Scale: 1, AtOnce: w.atOnce}}
		rounds := make([][]measured, len(strategies))
		for round := range o.rounds {
			for k := range strategies {
				n := (k + round) % len(strategies) // nobody is always first
				m := onServer(ctx, p, engines, routers[n].url)
				m.strategy = strategies[n]
				o.tell(w.name, round, m)
				rounds[n] = append(rounds[n], m)
				if m.err != nil {
					errs = append(errs, fmt.Errorf("%s: %d requests failed, the first with: %w", m.strategy, m.Failed,
						m.err))
				}
			}
		}
		fmt.Fprintln(o.out, p.title)
		o.table(medians(rounds), p)
	}
	return errors.Join(errs...)
}

// onServer sends a workload to a router.
func onServer(ctx context.Context, p *plan, engines servers, url string) (m measured) {
	tokensBefore, cachedBefore, busyBefore, err := engines.spent()
	if err != nil {
		m.err = err
		return m
	}
	run := p.run
	run.URL, run.Salt = url, uint64(time.Now().UnixNano())
	m.Figures, m.err = run.Do(ctx)
	tokens, cached, busy, err := engines.spent()
	m.err = errors.Join(m.err, err)
	m.Hit = (cached - cachedBefore) / (tokens - tokensBefore)
	m.busy = busy - busyBefore
	return m
}

// tell prints a measurement.
func (o *overHTTP) tell(workload string, round int, m measured) {
	line := map[string]any{
		"workload": workload, "round": round + 1, "router": m.strategy, "requests": m.Requests, "failed": m.Failed,
		"hit": m.Hit, "mean": m.Mean, "p50": m.P50, "p90": m.P90, "p99": m.P99, "computed": m.busy,
	}
	if text, err := json.Marshal(line); err == nil { // there is no number where nothing was answered
		fmt.Fprintf(o.out, "%s\n", text)
	}
}

// medians returns the median round of each strategy, by the mean time to the first token.
func medians(rounds [][]measured) (all []measured) {
	for _, of := range rounds {
		slices.SortFunc(of, func(a, b measured) int { return cmp.Compare(a.Mean, b.Mean) })
		m := of[len(of)/2]
		m.least, m.most = of[0].Mean, of[len(of)-1].Mean
		for _, each := range of {
			m.Failed = max(m.Failed, each.Failed)
		}
		all = append(all, m)
	}
	return all
}
