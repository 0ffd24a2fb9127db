package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/wings/measure"
)

// benchFlags choose the model, the load and the form of a measurement.
type benchFlags struct {
	remoteFlags
	model, direct       string
	keyVariable         string
	directVariable      string
	prompt              string
	requests            int
	concurrency, tokens int
	demo, json          bool
}

func newBench(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &benchFlags{remoteFlags: flagsIn(env)}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what a running gateway adds to chat requests, streams included",
		Long: `Sends the same chat requests through a gateway and directly to the backend of the
model, in turn, and prints latency and time to the first token of both, what the
gateway adds (the difference), and the gateway's processor time for each request.
The requests are real: backends that cost money cost it.

The backend is that of the first instance of the model whose dialect is OpenAI's, or
the one of --direct. --demo measures a demo that is started for it.

` + remotePlaces,
		Example: `  patchbay bench --demo
  patchbay bench --model llama3 --requests 1000 --concurrency 16
  patchbay bench --url http://127.0.0.1:8080 --model llama3 --direct http://gpu1:8000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.requests < 1 || flags.concurrency < 1 {
				return errors.New("--requests and --concurrency: want at least 1")
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return flags.run(ctx, stdout, stderr)
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&flags.model, "model", "", "model to ask (default: that of the first instance)")
	cmd.Flags().StringVar(&flags.direct, "direct", "", "address of the backend (default: that of the instance)")
	cmd.Flags().StringVar(&flags.keyVariable, "key-env", "PATCHBAY_KEY",
		"environment variable with an API key of the gateway")
	cmd.Flags().StringVar(&flags.directVariable, "direct-key-env", "",
		"environment variable with the backend's key (default: that of the instance, where it may be read)")
	cmd.Flags().StringVar(&flags.prompt, "prompt", "Say hello.", "what is asked")
	cmd.Flags().IntVar(&flags.tokens, "max-tokens", 16, "how long answers may be")
	cmd.Flags().IntVarP(&flags.requests, "requests", "n", 500, "requests of each kind to each side")
	cmd.Flags().IntVar(&flags.concurrency, "concurrency", 4, "requests at a time")
	cmd.Flags().BoolVar(&flags.demo, "demo", false, "measure a demo that is started for it")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("demo", "url")
	return cmd
}

func (f *benchFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.demo {
		address, stop, err := startDemo(ctx)
		if err != nil {
			return failed(err)
		}
		defer stop()
		f.url = address
	}
	gateway, err := f.remote()
	if err != nil {
		return err
	}
	direct, err := f.backend(ctx, &gateway)
	if err != nil {
		return failed(err)
	}
	options := measure.Options{
		Gateway:  measure.Target{URL: gateway.base + "/v1", Key: variable(f.env, f.keyVariable), Model: f.model},
		Direct:   direct,
		Requests: f.requests, Concurrency: f.concurrency, Prompt: f.prompt, MaxTokens: f.tokens,
		CPU: gateway.cpuTime,
	}
	if _, err := gateway.cpuTime(ctx); err != nil {
		options.CPU = nil // the scrape is not open to everybody
	}
	if _, isTerminal := terminalOf(stderr); isTerminal && !f.json {
		options.Progress = progressBar(stderr)
	}
	result, err := measure.Run(ctx, options)
	if err != nil {
		return failed(err)
	}
	return failed(f.print(stdout, result))
}

// backend finds out where the model is, and completes the flags.
func (f *benchFlags) backend(ctx context.Context, gateway *remote) (measure.Target, error) {
	key := variable(f.env, f.directVariable)
	if f.direct != "" && f.model != "" {
		return measure.Target{URL: versioned(f.direct), Key: key, Model: f.model}, nil
	}
	var instances []struct {
		Name          string `json:"name"`
		BaseURL       string `json:"baseUrl"`
		APIKey        string `json:"apiKey"`
		Adapter       string `json:"adapter"`
		UpstreamModel string `json:"upstreamModel"`
		Path          string `json:"path"`
		Enabled       bool   `json:"enabled"`
	}
	if err := gateway.ask(ctx, http.MethodGet, "/api/config/instance/type/chat", nil, &instances); err != nil {
		return measure.Target{}, err
	}
	for _, i := range instances {
		kind, err := kinds.Lookup(i.Adapter)
		if err != nil {
			continue // the gateway is of another release, which knows more kinds
		}
		if !i.Enabled || !kind.ServesOpenAIChat() || i.Path != "" || f.model != "" && f.model != i.Name {
			continue
		}
		target := measure.Target{URL: versioned(i.BaseURL), Key: i.APIKey, Model: i.Name}
		if i.UpstreamModel != "" {
			target.Model = i.UpstreamModel
		}
		if f.direct != "" {
			target.URL = versioned(f.direct)
		}
		if f.directVariable != "" {
			target.Key = key
		}
		if strings.HasPrefix(target.Key, "****") || strings.HasPrefix(target.Key, "${") {
			return target, errors.New("the key of the backend cannot be read: name its variable with --direct-key-env")
		}
		f.model = i.Name
		return target, nil
	}
	return measure.Target{}, errors.New("no enabled chat instance of this model speaks OpenAI's dialect; name a " +
		"--model that has one, and --direct")
}

// versioned returns the URL of a backend's API.
func versioned(baseURL string) string {
	return strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1") + "/v1"
}

// cpuTime reads how much processor time a gateway has used.
func (r *remote) cpuTime(ctx context.Context) (time.Duration, error) {
	response, err := r.open(ctx, http.MethodGet, "/actuator/prometheus", nil, "")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	found := regexp.MustCompile(`(?m)^process_cpu_seconds_total(?:\{[^}]*\})? (\S+)`).FindSubmatch(content)
	if err != nil || found == nil {
		return 0, errors.New("the gateway does not tell its processor time")
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	return time.Duration(value * float64(time.Second)), err
}

// startDemo starts a demo in a process of its own, and returns where it is.
func startDemo(ctx context.Context) (address string, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	command := exec.CommandContext(ctx, program, "demo", "--listen", "127.0.0.1:0", "--traffic=false", "--set",
		"log.level=error", "--set", "quota.enabled=false")
	output, err := command.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = command.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait() // it was told to stop
	}
	var said strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := output.Read(buffer)
		said.Write(buffer[:n])
		if found := regexp.MustCompile(`API base +(\S+)/v1`).FindStringSubmatch(said.String()); found != nil {
			return found[1], stop, nil
		}
		if err != nil {
			stop()
			return "", nil, fmt.Errorf("the demo did not start: %s", strings.TrimSpace(said.String()))
		}
	}
}

// progressBar draws how far a measurement is.
func progressBar(to io.Writer) func(done, total int) {
	last := -1
	return func(done, total int) {
		if percent := done * 100 / total; percent != last {
			last = percent
			fmt.Fprintf(to, "\r[%-40s] %3d %%", strings.Repeat("=", percent*40/100), percent)
		}
		if done == total {
			fmt.Fprint(to, "\r\x1b[K")
		}
	}
}

func (f *benchFlags) print(stdout io.Writer, result *measure.Result) error {
	if f.json {
		return writeJSON(stdout, struct {
			Model string `json:"model"`
			*measure.Result
		}{f.model, result})
	}
	fmt.Fprintf(stdout, "%s: %d requests of each kind, %d at a time\n\n", f.model, result.Requests, result.Concurrency)
	fmt.Fprintf(stdout, "%-22s %10s %10s %10s\n", "milliseconds", "direct", "gateway", "added")
	row := func(name string, direct, gateway, added float64) {
		fmt.Fprintf(stdout, "%-22s %10.3f %10.3f %+10.3f\n", name, direct, gateway, added)
	}
	for _, k := range result.Kinds {
		row(k.Kind+" p50", k.Direct.Latency.P50, k.Gateway.Latency.P50, k.Added.P50)
		row(k.Kind+" p99", k.Direct.Latency.P99, k.Gateway.Latency.P99, k.Added.P99)
		if k.AddedFirstToken != nil {
			row("first token p50", k.Direct.FirstToken.P50, k.Gateway.FirstToken.P50, k.AddedFirstToken.P50)
			row("first token p99", k.Direct.FirstToken.P99, k.Gateway.FirstToken.P99, k.AddedFirstToken.P99)
		}
	}
	fmt.Fprintln(stdout)
	for _, k := range result.Kinds {
		if k.CPUMicros > 0 {
			fmt.Fprintf(stdout, "%s: %.0f µs of the gateway's processor time for each request\n", k.Kind, k.CPUMicros)
		}
		if failed := k.Direct.Failed + k.Gateway.Failed; failed > 0 {
			fmt.Fprintf(stdout, "%s: %d requests failed (%s)\n", k.Kind, failed,
				strings.TrimSpace(k.Direct.FirstError+" "+k.Gateway.FirstError))
		}
	}
	return nil
}
