package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// overHTTP measures the strategies of a real gateway with a workload.
type overHTTP struct {
	out        io.Writer
	binary     string
	strategies string
	scale      float64
	until      float64
	isTogether bool
	llama      string
	model      string
}

// measured is the result of one strategy.
type measured struct {
	strategy string
	fleettest.Figures
	busy float64 // seconds of prefill, or of a processor
	err  error
}

// fleet are engines that a gateway is measured with.
type fleet interface {
	URLs() []string
	Close()
	// spent returns the tokens of all prompts, how many of them came from caches, and the
	// seconds of work, so far.
	spent() (tokens, cached, busy float64, err error)
}

// simulated are simulated engines.
type simulated struct {
	replay.Engines
	scale float64
}

func (s simulated) spent() (tokens, cached, busy float64, err error) {
	t := s.Totals()
	return float64(t.Tokens), float64(t.Cached), t.Prefill / s.scale, nil
}

// plan is a workload with a way to start the engines for it.
type plan struct {
	run     replay.Run
	title   string
	adapter string
	work    string // the meaning of busy seconds
	isReal  bool   // its seconds depend on the machine, its work does not
	start   func() (fleet, error)
}

// run measures all strategies and prints a table.
func (o *overHTTP) run(conversations func() []*fleettest.Request, workload string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := o.plan(conversations, workload)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.out, p.title)
	strategies := strings.Split(o.strategies, ",")
	results := make([]measured, len(strategies))
	if o.isTogether {
		var all sync.WaitGroup
		for n, strategy := range strategies {
			all.Go(func() { results[n] = o.measure(ctx, p, strategy) })
		}
		all.Wait()
	} else {
		for n, strategy := range strategies {
			results[n] = o.measure(ctx, p, strategy)
		}
	}
	o.table(results, p)
	var errs []error
	for _, m := range results {
		if m.err != nil {
			errs = append(errs, fmt.Errorf("%s: %d requests failed, the first with: %w", m.strategy, m.Failed, m.err))
		}
	}
	return errors.Join(errs...)
}

func (o *overHTTP) plan(conversations func() []*fleettest.Request, workload string) (*plan, error) {
	if o.llama != "" {
		return o.planLlama()
	}
	if workload == "" {
		workload = "trace"
	}
	for _, s := range fleettest.Scenarios(conversations) {
		if s.Name != workload {
			continue
		}
		requests := s.Requests()
		p := &plan{adapter: "vllm", work: "prefill s",
			run: replay.Run{Requests: requests, Block: s.Engines.Block, Until: o.until, Scale: o.scale}}
		p.title = fmt.Sprintf("%s: %d simulated engines, the first %g s at time scale %g, at most %.1f %% of the "+
			"tokens from caches",
			s.Name, s.Engines.Number, o.until, o.scale, 100*fleettest.Bound(requests, s.Engines.Block, o.until))
		p.start = func() (fleet, error) {
			engines, err := replay.StartEngines(s.Engines, simulator.VLLM, o.scale)
			return simulated{engines, o.scale}, err
		}
		return p, nil
	}
	return nil, fmt.Errorf("there is no workload %q", workload)
}

// measure starts engines and a gateway, and sends it the workload.
func (o *overHTTP) measure(ctx context.Context, p *plan, strategy string) measured {
	m := measured{strategy: strategy}
	engines, err := p.start()
	if err != nil {
		m.err = err
		return m
	}
	defer engines.Close()
	g, err := startGateway(ctx, o.binary, replay.Service(strategy, p.adapter, engines.URLs()))
	if err != nil {
		m.err = err
		return m
	}
	defer g.stop()
	tokensBefore, cachedBefore, busyBefore, err := engines.spent()
	if err != nil {
		m.err = err
		return m
	}
	run := p.run
	run.URL = g.url
	m.Figures, m.err = run.Do(ctx)
	tokens, cached, busy, err := engines.spent()
	if err != nil {
		m.err = errors.Join(m.err, err)
	}
	m.Hit = (cached - cachedBefore) / (tokens - tokensBefore)
	m.busy = busy - busyBefore
	return m
}

// table prints the results, and the worth of least_time in a sentence.
func (o *overHTTP) table(results []measured, p *plan) {
	with := func(strategy string) (found measured) {
		if n := slices.IndexFunc(results, func(m measured) bool { return m.strategy == strategy }); n >= 0 {
			return results[n]
		}
		return found
	}
	lc, rr, lt := with("least_connections"), with("round_robin"), with("least_time")
	fmt.Fprintf(o.out, "  %-18s %8s %6s %6s %8s %8s %8s %8s %7s %9s %6s %6s\n", "strategy", "requests", "failed",
		"hit %", "mean", "p50", "p90", "p99", "in 2 s", p.work, "x LC", "x RR")
	for _, m := range results {
		fmt.Fprintf(o.out, "  %-18s %8d %6d %6.1f %8.3f %8.3f %8.3f %8.3f %6.1f%% %9.1f %6.2f %6.2f\n", m.strategy,
			m.Requests, m.Failed, 100*m.Hit,
			m.Mean, m.P50, m.P90, m.P99, 100*m.Soon, m.busy, m.Mean/lc.Mean, m.Mean/rr.Mean)
	}
	switch {
	case lt.Requests == 0 || lc.Requests == 0 || rr.Requests == 0:
	case p.isReal:
		fmt.Fprintf(o.out, "same engines, same requests: with least_time they work for %.1f s, with round_robin for "+
			"%.1f and with least_connections for %.1f.\n", lt.busy, rr.busy, lc.busy)
	default:
		fmt.Fprintf(o.out, "same engines, same requests: with least_time the first token comes %.1f times sooner "+
			"than with round_robin and %.1f times sooner than with least_connections.\n",
			rr.Mean/lt.Mean, lc.Mean/lt.Mean)
	}
}
