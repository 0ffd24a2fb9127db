// Command bench measures the cost of a gateway for each request: Patchbay beside nginx
// and beside a bare proxy in Go, in front of the same cheap backend, in interleaved
// rounds. It needs no network but the loopback interface.
//
// The same binary is the runner, the backend and the bare proxy, each in a process of its
// own, because the processor time of each is measured alone.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// defaultStreams is how many streams memory is measured with.
const defaultStreams = 2000

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "backend":
			if len(args) > 2 && args[2] == "broken" {
				return serve(args[1], breakStreams)
			}
			return serve(args[1], answerLikeABackend)
		case "proxy":
			return serve(args[1], forwardTo(args[2]))
		case "load":
			return loadOnly(args[1:])
		}
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.StringVar(&o.patchbay, "patchbay", "bin/patchbay", "the binary to measure")
	flags.StringVar(&o.compare, "compare", "", "another binary to measure beside it, such as one of an older commit")
	flags.IntVar(&o.rounds, "rounds", 3, "how often every gateway gets its turn with every workload")
	flags.DurationVar(&o.slice, "d", 2*time.Second, "how long one turn is")
	flags.BoolVar(&o.json, "json", false, "print the figures as JSON")
	flags.BoolVar(&o.ledger, "ledger", false, "also measure Patchbay with the local quota ledger on")
	flags.IntVar(&o.streams, "streams", defaultStreams, "how many slow streams the workload mem has; all must run to their end")
	flags.BoolVar(&o.scale, "scale", false, "also measure Patchbay with 200 instances of the model, 500 models and 10,000 API keys; only w1 and w1c unless workloads are given")
	flags.BoolVar(&o.fleet, "fleet", false, "also measure Patchbay with 1, 16 and 200 instances of the model that least_time chooses among, beside least connections; only w1 and w4 unless workloads are given")
	flags.BoolVar(&o.doors, "doors", false, "measure the endpoints for Messages, Responses and completions beside chat, and nothing else")
	flags.BoolVar(&o.cache, "cache", false, "measure w1 with temperature 0, also answered from the cache, and refused with 429")
	beside := flags.String("beside", "", "programs of other people to measure beside it, as name=script separated by commas; see bench/others")
	only := flags.String("workloads", "", "the workloads to run, separated by commas; all if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *only != "" {
		o.workloads = strings.Split(*only, ",")
	}
	if *beside != "" {
		o.beside = strings.Split(*beside, ",")
	}
	if len(o.workloads) == 0 {
		o.workloads = o.usualWorkloads()
	}
	return measure(o)
}

// usualWorkloads returns the workloads that can show a difference between the chosen
// variants; none means all.
func (o *options) usualWorkloads() (names []string) {
	if o.scale {
		names = append(names, "w1", "w1c")
	}
	if o.fleet {
		names = append(names, "w1", "w4")
	}
	return names
}

// loadOnly sends one workload to an address and prints how many requests were
// answered, for profiles: bench load ADDRESS WORKLOAD DURATION.
func loadOnly(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench load ADDRESS WORKLOAD DURATION")
	}
	duration, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	for _, w := range slices.Concat(workloads(defaultStreams), workloadsOf(doorWorkloads())) {
		if w.name == args[1] {
			answered, err := load(args[0], w, duration, 0)
			fmt.Println(answered)
			return err
		}
	}
	return fmt.Errorf("no workload is called %s", args[1])
}
