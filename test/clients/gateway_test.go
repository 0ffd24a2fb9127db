// Package clients_test runs official clients against the binary, as a user
// would: started from the command line, reached over HTTP, stopped by a signal.
package clients_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 40 * time.Second // the grace for open requests is 30 s
	callLimit  = 30 * time.Second
)

// dialectModels are models of the demo, one for each dialect that backends speak.
var dialectModels = []string{"demo-chat", "demo-ollama", "demo-claude", "demo-gemini"}

// base is the address that clients are given; it ends in /v1.
var base string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "patchbay-clients-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	gateway, err := start(dir)
	if err != nil {
		return fail(err)
	}
	base = gateway.base
	code := m.Run()
	if err := gateway.stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

type gateway struct {
	base string
	cmd  *exec.Cmd
	out  *output
	done chan error // what waiting for the process said
}

// start runs the demo in dir, so that whatever it writes is left there, and
// returns when it is ready.
func start(dir string) (*gateway, error) {
	binary := os.Getenv("PATCHBAY_BIN")
	if binary == "" {
		binary = "../../bin/patchbay"
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w; run 'make build' first", err)
	}
	g := &gateway{
		cmd:  exec.Command(binary, "demo", "--listen", "127.0.0.1:0"),
		out:  &output{found: make(chan string, 1)},
		done: make(chan error, 1),
	}
	g.cmd.Dir, g.cmd.Stderr = dir, g.out
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { g.done <- g.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := g.ready(ctx); err != nil {
		return nil, errors.Join(err, g.stop(), fmt.Errorf("it printed:\n%s", g.out))
	}
	return g, nil
}

// ready waits for the printed address and then for a readiness of 200.
func (g *gateway) ready(ctx context.Context) error {
	select {
	case g.base = <-g.out.found:
	case err := <-g.done:
		g.done <- err
		return fmt.Errorf("ended before it printed its address: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("printed no address: %w", ctx.Err())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(g.base, "/v1")+"/actuator/health/readiness", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 2 * time.Second}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not ready in %v: %w", startLimit, err)
		}
	}
}

// stop asks the process to end, as a service manager does, and wants exit code 0.
func (g *gateway) stop() error {
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-g.done:
		if err != nil {
			return fmt.Errorf("after SIGTERM: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("did not end within %v of SIGTERM", stopLimit), g.cmd.Process.Kill())
	}
}

var baseLine = regexp.MustCompile(`API base\s+(http://\S+/v1)\s`)

// output keeps what the process prints and reports the address in it, once.
type output struct {
	found chan string

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if match := baseLine.FindSubmatch(o.text.Bytes()); match != nil && !o.told {
		o.told = true
		o.found <- string(match[1])
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// limited returns a context that ends with the test, or when a call takes too long.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	t.Cleanup(cancel)
	return ctx
}

// anyBackend makes the answers of the demo's two backends, which say their
// names, comparable.
func anyBackend(text string) string { return strings.Replace(text, "I am B,", "I am A,", 1) }
