package main

import (
	"cmp"
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
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// overHTTP measures the strategies of a real gateway, and other routers, with workloads.
type overHTTP struct {
	out        io.Writer
	binary     string
	strategies string
	routers    string // the folder with the scripts that start other routers
	rounds     int
	scale      float64
	until      float64
	isTogether bool
	llama      string
	model      string
}

// measured is the result of one strategy, or of one router.
type measured struct {
	strategy string
	fleettest.Figures
	busy float64 // seconds of prefill, or of a processor
	err  error
	// least and most are the means of the best and the worst round.
	least, most float64
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

// run measures all strategies with each workload and prints a table for it.
func (o *overHTTP) run(conversations func() []*fleettest.Request, workloads string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var errs []error
	for workload := range strings.SplitSeq(workloads, ",") {
		p, err := o.plan(conversations, workload)
		if err != nil {
			return err
		}
		fmt.Fprintln(o.out, p.title)
		results := o.compare(ctx, p, strings.Split(o.strategies, ","))
		o.table(results, p)
		for _, m := range results {
			if m.err != nil {
				errs = append(errs, fmt.Errorf("%s: %d requests failed, the first with: %w", m.strategy, m.Failed,
					m.err))
			}
		}
	}
	return errors.Join(errs...)
}

// compare measures strategies in rounds: all of them in each round, at the same time or one after
// the other. It returns the median round of each, by the mean time to the first token.
func (o *overHTTP) compare(ctx context.Context, p *plan, strategies []string) []measured {
	rounds := make([][]measured, len(strategies))
	for range o.rounds {
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
		for n, m := range results {
			rounds[n] = append(rounds[n], m)
		}
	}
	medians := make([]measured, len(strategies))
	for n, all := range rounds {
		slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.Mean, b.Mean) })
		medians[n] = all[len(all)/2]
		medians[n].least, medians[n].most = all[0].Mean, all[len(all)-1].Mean
		for _, m := range all { // also of a round that is not shown
			medians[n].err = cmp.Or(medians[n].err, m.err)
			medians[n].Failed = max(medians[n].Failed, m.Failed)
		}
	}
	return medians
}

func (o *overHTTP) plan(conversations func() []*fleettest.Request, workload string) (*plan, error) {
	if o.llama != "" {
		return o.planLlama()
	}
	workload = cmp.Or(workload, "trace")
	for _, s := range fleettest.Scenarios(conversations) {
		if s.Name != workload {
			continue
		}
		if len(s.Engines.Turns) > 0 {
			return nil, fmt.Errorf("the engines of %s change their speed, which they do in virtual time only", s.Name)
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

// settle is the time in which a router that has started looks at its engines.
const settle = 3 * time.Second

// measure starts engines and a router, and sends it the workload.
func (o *overHTTP) measure(ctx context.Context, p *plan, strategy string) measured {
	m := measured{strategy: strategy}
	engines, err := p.start()
	if err != nil {
		m.err = err
		return m
	}
	defer engines.Close()
	g, err := o.startRouter(ctx, strategy, p.adapter, engines.URLs())
	if err != nil {
		m.err = err
		return m
	}
	defer g.stop()
	time.Sleep(settle) //nolint:forbidigo // this is a measurement, no test
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
	fmt.Fprintf(o.out, "  %-18s %8s %6s %6s %8s %15s %8s %8s %8s %7s %9s %6s %6s\n", "strategy", "requests", "failed",
		"hit %", "mean", "of all rounds", "p50", "p90", "p99", "in 2 s", p.work, "x LC", "x RR")
	for _, m := range results {
		fmt.Fprintf(o.out, "  %-18s %8d %6d %6.1f %8.3f %15s %8.3f %8.3f %8.3f %6.1f%% %9.1f %6.2f %6.2f\n",
			m.strategy, m.Requests, m.Failed, 100*m.Hit,
			m.Mean, fmt.Sprintf("%.3f-%.3f", m.least, m.most), m.P50, m.P90, m.P99,
			100*m.Soon, m.busy, m.Mean/lc.Mean, m.Mean/rr.Mean)
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
