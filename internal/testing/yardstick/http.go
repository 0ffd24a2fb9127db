package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
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
	within     float64
	lines      string // the file that gets a line of JSON for each measurement
	trace      string
	speeds     []float64
	llama      string
	model      string
}

// flags adds the flags of measurements over HTTP.
func (o *overHTTP) flags(flags *flag.FlagSet) {
	flags.StringVar(&o.binary, "http", "", "the path of patchbay: measure over HTTP, with it as the gateway")
	flags.StringVar(&o.strategies, "strategies", "round_robin,least_connections,least_time",
		"with -http: strategies of the gateway that are compared, and names of -routers")
	flags.StringVar(&o.routers, "routers", "bench/race", "with -http: the folder with NAME.sh for each other router")
	flags.IntVar(&o.rounds, "rounds", 1, "with -http: how often all are measured; the median is shown")
	flags.Float64Var(&o.scale, "scale", 0.1, "with -http: how many real seconds a second of the workload is; less "+
		"than 0.05 measures the machine")
	flags.Float64Var(&o.until, "until", 600, "with -http: how many seconds of the workload are sent")
	flags.Float64Var(&o.within, "within", 0, "with -http: after how many seconds of the workload a run ends; what has "+
		"no first token then has failed, and counts with the time that it has waited; 0 is never")
	flags.StringVar(&o.lines, "json", "", "with -http: a file to which each measurement is added as a line of JSON")
	flags.BoolVar(&o.isTogether, "together", false,
		"with -http: measure all strategies at the same time, which needs many cores")
	flags.StringVar(&o.llama, "llama-server", "",
		"with -http: the path of llama.cpp's server, which is used instead of simulated engines")
	flags.StringVar(&o.model, "model", "", "with -llama-server: its model, which should be tiny")
}

// measured is the result of one strategy, or of one router.
type measured struct {
	strategy string
	fleettest.Figures
	tokens, cached float64 // of all prompts, by the engines' count
	busy           float64 // seconds of prefill, or of a processor
	err            error
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
	name    string
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
	for round := range o.rounds {
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
			if err := o.note(p, m, round+1); err != nil && results[0].err == nil {
				results[0].err = err
			}
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
		s.Engines.Vary(o.speeds)
		requests := s.Requests()
		p := &plan{name: workload, adapter: "vllm", work: "prefill s",
			run: replay.Run{
				Requests: requests, Block: s.Engines.Block, Until: o.until, Scale: o.scale, Within: o.within}}
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

// note adds a measurement to the file of lines.
func (o *overHTTP) note(p *plan, m measured, round int) error {
	if o.lines == "" {
		return nil
	}
	line := map[string]any{
		"at": time.Now().UTC().Format(time.RFC3339), "workload": p.name, "trace": o.trace,
		"speeds": o.speeds, "until": o.until,
		"scale": o.scale, "router": m.strategy, "round": round, "requests": m.Requests, "failed": m.Failed,
	}
	for name, value := range map[string]float64{
		"hit": m.Hit, "mean": m.Mean, "p50": m.P50, "p90": m.P90, "p99": m.P99, "soon": m.Soon, "learned": m.Learned,
		"busy": m.busy, "tokens": m.tokens, "computed": m.tokens - m.cached,
	} {
		if !math.IsNaN(value) { // JSON has no such number
			line[name] = value
		}
	}
	if m.err != nil {
		line["error"] = m.err.Error()
	}
	out, err := json.Marshal(line)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(o.lines, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(out, '\n'))
	return errors.Join(err, file.Close())
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
	m.tokens, m.cached = tokens-tokensBefore, cached-cachedBefore
	m.Hit = m.cached / m.tokens
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
	fmt.Fprintf(o.out, "  %-18s %8s %6s %6s %8s %15s %8s %8s %8s %7s %8s %9s %6s %6s\n", "strategy", "requests",
		"failed", "hit %", "mean", "of all rounds", "p50", "p90", "p99", "in 2 s", "learned", p.work, "x LC", "x RR")
	for _, m := range results {
		fmt.Fprintf(o.out, "  %-18s %8d %6d %6.1f %8.3f %15s %8.3f %8.3f %8.3f %6.1f%% %8.3f %9.1f %6.2f %6.2f\n",
			m.strategy, m.Requests, m.Failed, 100*m.Hit,
			m.Mean, fmt.Sprintf("%.3f-%.3f", m.least, m.most), m.P50, m.P90, m.P99,
			100*m.Soon, m.Learned, m.busy, m.Mean/lc.Mean, m.Mean/rr.Mean)
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
