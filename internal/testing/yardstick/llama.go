package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
)

// A real engine from elsewhere: llama.cpp's server with a model that a processor runs.
// How much of its prompts it had cached, and how much time of a processor it took, do not
// depend on other work of the machine.
const (
	llamas       = 3
	llamaSlots   = 2
	llamaContext = 4096 // tokens of each slot
	llamaBlock   = 24   // words
)

// planLlama plans conversations that all engines together have room for, one alone has not.
func (o *overHTTP) planLlama() (*plan, error) {
	if _, err := exec.LookPath(o.llama); err != nil {
		return nil, fmt.Errorf("skipped: llama.cpp's server is missing: %w", err)
	}
	if _, err := os.Stat(o.model); err != nil {
		return nil, fmt.Errorf("skipped: the model for llama.cpp's server is missing: %w", err)
	}
	const conversations, turns = 6, 8
	requests := fleettest.Talks(conversations, turns, llamaBlock, 2)
	for _, r := range requests {
		for ; r != nil; r = r.Next {
			r.Outputs, r.Pause = 8, min(r.Pause/20, 1)
		}
	}
	return &plan{
		adapter: "llamacpp", work: "cpu s", isReal: true,
		run: replay.Run{Requests: requests, Block: llamaBlock, Scale: 1},
		title: fmt.Sprintf("%d servers of llama.cpp with %d slots of %d tokens, %d conversations of %d turns", llamas,
			llamaSlots, llamaContext, conversations, turns),
		start: func() (fleet, error) { return startLlamas(o.llama, o.model) },
	}, nil
}

// llamaServers are servers of llama.cpp.
type llamaServers []*process

func startLlamas(binary, model string) (fleet, error) {
	var all llamaServers
	for range llamas {
		address, err := freeAddress()
		if err == nil {
			host, port, _ := net.SplitHostPort(address)
			var p *process
			// Without --cache-ram a server would keep prompts beside its slots as well.
			ctx := context.Background()
			p, err = start(ctx, address, "/health",
				exec.CommandContext(ctx, binary, "--model", model, "--alias", "m", "--host", host, "--port", port,
					"--ctx-size", strconv.Itoa(llamaSlots*llamaContext), "--parallel", strconv.Itoa(llamaSlots),
					"--cache-ram", "0",
					"--threads", "1", "--threads-http", "16", "--metrics", "--jinja"))
			if err == nil {
				all = append(all, p)
				continue
			}
		}
		all.Close()
		return nil, err
	}
	return all, nil
}

// URLs returns where the servers are.
func (l llamaServers) URLs() (all []string) {
	for _, p := range l {
		all = append(all, p.url)
	}
	return all
}

// Close ends the servers.
func (l llamaServers) Close() {
	for _, p := range l {
		p.stop()
	}
}

func (l llamaServers) spent() (tokens, cached, busy float64, err error) {
	for _, p := range l {
		metrics, err := readMetrics(p.url + "/metrics")
		if err != nil {
			return 0, 0, 0, err
		}
		seconds, err := processorTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, 0, 0, err
		}
		hits := metrics["llamacpp:prompt_tokens_cached_total"]
		tokens += metrics["llamacpp:prompt_tokens_total"] + hits
		cached += hits
		busy += seconds
	}
	return tokens, cached, busy, nil
}

func readMetrics(url string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: startTime}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = number
		}
	}
	return all, nil
}

// processorTime returns the seconds that a process has had of processors.
func processorTime(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system, ticks = 11, 12, 100
	if len(fields) <= system {
		return 0, errors.New("the time of a process cannot be read")
	}
	var sum float64
	for _, n := range []int{user, system} {
		value, err := strconv.ParseFloat(fields[n], 64)
		if err != nil {
			return 0, err
		}
		sum += value / ticks
	}
	return sum, nil
}
