package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are the flags of the command line.
type options struct {
	patchbay, compare string
	rounds            int
	slice             time.Duration
	streams           int
	json              bool
	ledger, scale     bool // more variants of Patchbay
	fleet             bool // variants that balance by the prompt
	cache             bool // answers from the cache beside refusals, with w1 alone
	doors             bool // only the endpoints beside chat
	workloads         []string
	beside            []string // programs of other people, as name=script
}

// result is the cost of one gateway with one workload.
type result struct {
	Workload string  `json:"workload"`
	Gateway  string  `json:"gateway"`
	Round    int     `json:"round"`
	Requests int64   `json:"requests,omitempty"`
	PerSec   float64 `json:"requestsPerSecond,omitempty"`
	// CPU is the gateway's processor time for each request, in microseconds.
	CPU float64 `json:"cpuMicroseconds,omitempty"`
	// KiB is the anonymous memory for each stream, beyond the memory of the idle gateway.
	KiB float64 `json:"kibPerStream,omitempty"`
}

// measure starts everything, runs the rounds and prints the figures.
func measure(o options) error {
	dir, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	rig, err := start(dir, o)
	defer rig.stop()
	if err != nil {
		return err
	}
	var results []result
	var chosen []workload
	all := workloads(o.streams)
	if len(o.beside) > 0 {
		all = append(all, aloneWorkload())
	}
	switch {
	case o.doors:
		all = workloadsOf(doorWorkloads())
	case o.cache:
		all = []workload{coldWorkload()}
	}
	for _, w := range all {
		if len(o.workloads) == 0 || slices.Contains(o.workloads, w.name) {
			chosen = append(chosen, w)
		}
	}
	for round := range o.rounds {
		for _, w := range chosen {
			if w.memory && round > 0 {
				continue
			}
			for _, g := range rig.gateways {
				fmt.Fprintf(os.Stderr, "round %d of %d: %-4s %-22s ", round+1, o.rounds, w.name, g.name)
				r, err := g.run(w, o.slice)
				if err != nil {
					return fmt.Errorf("%s with %s: %w", g.name, w.name, err)
				}
				r.Round = round + 1
				results = append(results, r)
				if w.memory {
					fmt.Fprintf(os.Stderr, "%7.1f KiB a stream\n", r.KiB)
				} else {
					fmt.Fprintf(os.Stderr, "%7.1f us  %8.0f a second\n", r.CPU, r.PerSec)
				}
			}
		}
	}
	if o.json {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"machine": machine(), "idleMiB": rig.idle, "startMilliseconds": rig.began, "results": results})
	}
	if o.doors {
		printDoors(chosen, rig.gateways, results)
		return nil
	}
	printTable(rig, chosen, results)
	return nil
}

// run measures one turn of a gateway.
func (g *gateway) run(w workload, slice time.Duration) (result, error) {
	r := result{Workload: w.name, Gateway: g.name}
	if w.memory {
		before, err := g.memory()
		if err != nil {
			return r, err
		}
		peak, err := g.peakDuring(func() error {
			_, err := load(g.address, w, slice, g.keys)
			return err
		})
		r.KiB = float64(peak-before) / 1024 / float64(w.connections)
		return r, err
	}
	if _, err := load(g.address, w, slice/8, g.keys); err != nil { // connections and caches
		return r, err
	}
	before, err := g.cpu()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if r.Requests, err = load(g.address, w, slice, g.keys); err != nil {
		return r, err
	}
	took := time.Since(began)
	time.Sleep(150 * time.Millisecond) // remaining work, such as a log
	after, err := g.cpu()
	if err != nil {
		return r, err
	}
	r.CPU = float64((after - before).Nanoseconds()) / 1000 / float64(r.Requests)
	r.PerSec = float64(r.Requests) / took.Seconds()
	return r, nil
}

// printTable prints a row for each workload: the median of the rounds, and the median of
// each round's ratio to the first gateway.
func printTable(rig *rig, chosen []workload, results []result) {
	fmt.Printf("\n%s\n\nCPU of the gateway for each request in microseconds, and its ratio to %s in the same round (medians)\n\n", machine(), rig.gateways[0].name)
	header, line := "| workload |", "|---|"
	for n, g := range rig.gateways {
		header += " " + g.name + " |"
		line += "---|"
		if n > 0 {
			header += " ratio |"
			line += "---|"
		}
	}
	fmt.Println(header + "\n" + line)
	for _, w := range chosen {
		base := figures(results, w.name, rig.gateways[0].name)
		fmt.Printf("| %s %s | %.0f |", w.name, w.title, median(base))
		for _, g := range rig.gateways[1:] {
			own := figures(results, w.name, g.name)
			var ratios []float64
			for n := range own {
				ratios = append(ratios, own[n]/base[n])
			}
			fmt.Printf(" %.0f | %.2f |", median(own), median(ratios))
		}
		fmt.Println()
	}
	printGrowth(rig, results)
	printEach(rig, "Anonymous memory before any load, MiB:", rig.idle, "%.0f")
	printEach(rig, "From the start to the first answer, ms:", rig.began, "%.0f")
	alone := map[string]float64{}
	for _, g := range rig.gateways {
		var times []float64
		for _, r := range results {
			if r.Workload == aloneWorkload().name && r.Gateway == g.name {
				times = append(times, 1000/r.PerSec)
			}
		}
		alone[g.name] = median(times)
	}
	if alone[rig.gateways[0].name] > 0 {
		printEach(rig, "A request on one connection, ms:", alone, "%.2f")
	}
}

// printEach prints one figure of every gateway.
func printEach(rig *rig, title string, of map[string]float64, format string) {
	fmt.Print("\n" + title)
	for _, g := range rig.gateways {
		fmt.Printf(" %s "+format, g.name, of[g.name])
	}
	fmt.Println()
}

// figures returns the figure of each round for a workload of a gateway.
func figures(results []result, workload, gateway string) (all []float64) {
	for _, r := range results {
		if r.Workload == workload && r.Gateway == gateway {
			all = append(all, max(r.CPU, r.KiB))
		}
	}
	return all
}

// printGrowth prints how much more a request takes with 1,024 connections than with 32,
// if both were measured.
func printGrowth(rig *rig, results []result) {
	title := "\nFrom 32 to 1,024 connections (w1c by w1, median of the rounds):"
	for _, g := range rig.gateways {
		few, many := figures(results, "w1", g.name), figures(results, "w1c", g.name)
		var ratios []float64
		for n := range min(len(few), len(many)) {
			ratios = append(ratios, many[n]/few[n])
		}
		if len(ratios) > 0 {
			fmt.Printf("%s %s %.2f", title, g.name, median(ratios))
			title = ","
		}
	}
	if title == "," {
		fmt.Println()
	}
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// machine describes where the figures come from.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%s, %d cores, %s, load at the end %s", model, runtime.NumCPU(), runtime.Version(), strings.Join(strings.Fields(string(load))[:min(1, len(strings.Fields(string(load))))], ""))
}

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return filepath.Clean(path)
}
