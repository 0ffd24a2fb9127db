// Command yardstick runs the policy of a fleet in virtual time, beside round robin and
// least connections on the same requests:
//
//	go run ./internal/testing/yardstick -trace conversation_trace.jsonl
//	go run ./internal/testing/yardstick -trace conversation_trace.jsonl -workload trace -gateways 3 -share 1
//
// With -http the engines are servers of their own and the gateway is the real one, which
// is started once for each strategy:
//
//	go run ./internal/testing/yardstick -http bin/patchbay -trace conversation_trace.jsonl
//	go run ./internal/testing/yardstick -http bin/patchbay -llama-server llama-server -model tiny.gguf
//	go run ./internal/testing/yardstick -http bin/patchbay -strategies least_time,smg,nginx -rounds 3
//
// With -engines the servers are real ones, which somebody has started (bench/gpu).
//
// A strategy that names a script in -routers is another router on the same engines (make race).
//
// Without a trace its workload is generated. With -exec it is a policy for a simulation
// in another process, which sends its questions as lines of JSON.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("yardstick", flag.ContinueOnError)
	trace := flags.String("trace", "", "a trace in the format of Mooncake; without it one is generated")
	workload := flags.String("workload", "", "names of workloads, with commas; without it all")
	gateways := flags.Int("gateways", 1, "how many gateways share the engines")
	share := flags.Float64("share", 0, "seconds between two exchanges of the gateways; 0 is never")
	told := flags.Float64("told", 0, "seconds between two health checks, with which engines tell their queues; 0 is "+
		"never")
	whole := flags.Bool("whole", false, "answers come whole instead of piece by piece")
	secretive := flags.Bool("secretive", false, "engines do not tell how large their caches are")
	seed := flags.Uint64("seed", 1, "of the noise in the guessed tokens")
	exec := flags.Bool("exec", false, "choose for another simulation: JSON lines on standard input and output")
	over := overHTTP{out: out}
	servers := flags.String("engines", "", "with -http: addresses of servers of vLLM that run already and serve the "+
		"model m, with commas, which are used instead of simulated engines")
	speeds := flags.String("speeds", "", "how fast each engine is beside those of the workload, such as 1,1,0.25,0.1; "+
		"so many engines are used")
	over.flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *exec {
		return serve(in, out)
	}
	factors, err := readSpeeds(*speeds)
	if err != nil {
		return err
	}
	conversations := fleettest.Conversations
	if *trace != "" {
		file, err := os.Open(*trace)
		if err != nil {
			return err
		}
		defer file.Close()
		requests, err := fleettest.ReadTrace(file, fleettest.Standard().Block)
		if err != nil {
			return err
		}
		conversations = func() []*fleettest.Request { return requests }
	}
	if over.binary != "" && over.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	if over.binary != "" && *servers != "" {
		return over.onServers(strings.Split(*servers, ","), *workload)
	}
	over.trace, over.speeds = filepath.Base(*trace), factors
	if over.binary != "" {
		return over.run(conversations, *workload)
	}
	for _, s := range fleettest.Scenarios(conversations) {
		if *workload != "" && !strings.Contains(","+*workload+",", ","+s.Name+",") {
			continue
		}
		s.Engines.Vary(factors)
		requests := s.Requests()
		for _, r := range requests {
			for ; r != nil; r = r.Next {
				r.Whole = *whole
			}
		}
		s.Engines.Secretive = *secretive
		compared := fleettest.Compare(fleettest.Run{
			Engines: s.Engines, Requests: requests, Until: s.Until, Seed: *seed,
			Gateways: *gateways, Share: *share, Told: *told,
		})
		fmt.Fprintf(out, "\n%s: %d requests, at most %.1f %% of their tokens from caches\n", s.Name,
			compared.LeastTime.Requests, 100*fleettest.Bound(requests, s.Engines.Block, s.Until))
		if s.Engines.Room > 0 {
			fmt.Fprintf(out, "  models are loaded %d times at least, by a plan that knows what will come\n",
				fleettest.LeastLoads(requests, s.Engines.Room*s.Engines.Number))
		}
		fmt.Fprintf(out, "  %-20s %6s %8s %8s %8s %8s %7s %8s %8s %6s %6s %6s %8s\n", "policy", "hit %", "mean",
			"p50", "p90", "p99", "in 2 s", "learned", "answer", "loads", "x LC", "x RR", "est.err")
		show(out, "round_robin", compared.RoundRobin, compared)
		show(out, "least_connections", compared.LeastConnections, compared)
		show(out, "least_time", compared.LeastTime, compared)
		if s.Engines.Kinds != nil {
			show(out, "least_time to answer", compared.LeastAnswer, compared)
			show(out, "oracle", compared.Oracle, compared)
		}
	}
	return nil
}

// readSpeeds reads numbers with commas between them.
func readSpeeds(text string) (speeds []float64, err error) {
	if text == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		speed, err := strconv.ParseFloat(word, 64)
		if err != nil || !(speed > 0 && speed <= 1000) {
			return nil, fmt.Errorf("-speeds: %q is no number above 0 and up to 1000", word)
		}
		speeds = append(speeds, speed)
	}
	return speeds, nil
}

func show(out io.Writer, name string, f fleettest.Figures, beside fleettest.Comparison) {
	fmt.Fprintf(out, "  %-20s %6.1f %8.3f %8.3f %8.3f %8.3f %6.1f%% %8.3f %8.2f %6d %6.2f %6.2f %7.0f%%\n",
		name, 100*f.Hit, f.Mean, f.P50, f.P90, f.P99, 100*f.Soon, f.Learned, f.Answer, f.Loads,
		f.Mean/beside.LeastConnections.Mean, f.Mean/beside.RoundRobin.Mean, 100*f.EstimateError)
}
