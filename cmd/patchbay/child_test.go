package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// child is the program in a process of its own.
type child struct {
	t       *testing.T
	command *exec.Cmd
	stdout  *gatewaytest.Buffer
	stderr  *gatewaytest.Buffer
	exited  chan struct{} // closed when the process is gone
	code    int           // good after that; -1 for a process that a signal ended
}

// startChild starts the program with these arguments, in an empty directory and
// an environment without settings.
func startChild(t *testing.T, args ...string) *child {
	t.Helper()
	return startChildWith(t, nil, args...)
}

// startChildWith is startChild with these variables in the environment too.
func startChildWith(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	return startProgram(t, binary, env, args...)
}

// startProgram is startChildWith for another program.
func startProgram(t *testing.T, binary string, env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, stdout: new(gatewaytest.Buffer), stderr: new(gatewaytest.Buffer), exited: make(chan struct{})}
	// The deadline is for a test that forgets its process.
	c.command = exec.CommandContext(gatewaytest.Deadline(t), binary, args...)
	c.command.Dir = t.TempDir()
	c.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.command.Dir, "TMPDIR=" + t.TempDir()}
	c.command.Env = append(c.command.Env, env...)
	c.command.Stdout, c.command.Stderr = c.stdout, c.stderr
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.command.Wait() // the code says it
		c.code = c.command.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("the process said:\n%s%s", c.stdout.String(), c.stderr.String())
		}
	})
	return c
}

// serving starts the program and waits until it listens.
func serving(t *testing.T, args ...string) *child {
	t.Helper()
	c := startChild(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	c.waitFor(`"msg":"listening"`)
	return c
}

// waitFor waits until the log has a line with this part.
func (c *child) waitFor(part string) {
	c.t.Helper()
	gatewaytest.Eventually(c.t, "the process says "+part, func() bool {
		if strings.Contains(c.stderr.String(), part) {
			return true
		}
		select {
		case <-c.exited:
			c.t.Fatalf("the process ended with %d", c.code)
		default:
		}
		return false
	})
}

// url returns where the process listens, by its own words.
func (c *child) url() string {
	c.t.Helper()
	found := regexp.MustCompile(`"address":"(http://[^"]+)"`).FindStringSubmatch(c.stderr.String())
	if found == nil {
		c.t.Fatalf("no address in %s", c.stderr.String())
	}
	return found[1]
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.command.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Error(err)
	}
}

// kill ends the process as a crash would.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// exits waits for the end of the process and checks its code.
func (c *child) exits(code int) {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(gatewaytest.Timeout):
		c.t.Fatal("the process does not end")
	}
	if c.code != code {
		c.t.Errorf("exit code %d, want %d", c.code, code)
	}
}

// ask sends a request to the process and reads the whole answer.
func (c *child) ask(method, path, body string) gatewaytest.Reply {
	c.t.Helper()
	response, err := c.send(gatewaytest.Deadline(c.t), method, path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return gatewaytest.ReadReply(response)
}

func (c *child) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	return (&http.Client{Transport: transport}).Do(request)
}

// stream opens a stream at the process.
func (c *child) stream(body string) *gatewaytest.EventReader {
	c.t.Helper()
	response, err := c.send(gatewaytest.Deadline(c.t), http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		content, _ := io.ReadAll(response.Body)
		c.t.Fatalf("no stream: %d %s", response.StatusCode, content)
	}
	return &gatewaytest.EventReader{From: bufio.NewReader(response.Body)}
}
