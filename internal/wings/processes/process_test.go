//go:build unix

package processes

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// fakeProcess describes a real process that behaves as a mode says.
func fakeProcess(t *testing.T, mode string, args ...string) Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := DefaultProcess()
	p.Command = append([]string{program, fakeWord, mode, "$PORT"}, args...)
	p.StartTimeout, p.Restarts = schema.Duration(waittest.Limit), 0
	return p
}

func newManager(t *testing.T, settings Settings) *kept {
	t.Helper()
	settings.Check(func(path string, fault say.Sentence) { t.Errorf("%s: %s", path, fault) })
	m := keep(New(settings, 0, Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(m.Close)
	return m
}

// isGone reports whether a process has ended. One that waits for its parent has, too.
func isGone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestARealProcessIsStartedServesAndIsStopped(t *testing.T) {
	t.Parallel()
	m := newManager(t, Settings{"a": fakeProcess(t, "serve")})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	view, _, err := m.View("a")
	if err != nil || view.State != Ready || view.PID == 0 {
		t.Fatalf("%+v %v", view, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, view.BaseURL+"/anything", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	release()
	if err := m.Stop("a"); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is stopped", func() bool { state, _ := m.StateOf("a"); return state == Stopped })
	if !isGone(view.PID) {
		t.Error("the process is still there")
	}
}

// TestAServerMayBeReadyWhenItListens has one that never answers with 200.
func TestAServerMayBeReadyWhenItListens(t *testing.T) {
	t.Parallel()
	p := fakeProcess(t, "loading")
	p.Ready = "tcp://127.0.0.1:$PORT"
	m := newManager(t, Settings{"a": p})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	if view, _, _ := m.View("a"); !strings.HasPrefix(view.BaseURL, "http://127.0.0.1:") || !p.IsLocal() {
		t.Errorf("it is at %s", view.BaseURL)
	}
}

func TestAProcessThatNeverAnswersFails(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang", "loading"} {
		p := fakeProcess(t, mode)
		p.StartTimeout = schema.Duration(300 * time.Millisecond)
		m := newManager(t, Settings{"a": p})
		if _, err := m.Ensure(waittest.Context(t), "a"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "not ready within 300ms") {
			t.Errorf("%s: %v", mode, err)
		}
		if view, _, _ := m.View("a"); view.State != Failed || view.PID != 0 {
			t.Errorf("%s: %+v", mode, view)
		}
	}
}

func TestAProcessThatDiesAtOnceTellsWhy(t *testing.T) {
	t.Parallel()
	m := newManager(t, Settings{"a": fakeProcess(t, "die")})
	if _, err := m.Ensure(waittest.Context(t), "a"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "exited with status 3") {
		t.Error(err)
	}
	view, lines, _ := m.View("a")
	if view.State != Failed || !strings.Contains(view.Reason, "status 3") || len(lines) != 1 || lines[0].Text != "cannot load the model" {
		t.Errorf("%+v %v", view, lines)
	}
}

func TestAProgramThatIsNotThereIsSaidSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command, directory, want string
	}{
		{"no-such-program-anywhere", "", "was not found in PATH"},
		{"/no/such/program", "", "no such file"},
		{"/bin/sh", "/no/such/directory", "no such file"},
	} {
		p := fakeProcess(t, "serve")
		p.Command[0], p.Directory = c.command, c.directory
		m := newManager(t, Settings{"a": p})
		if _, err := m.Ensure(waittest.Context(t), "a"); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %q: %v", c.command, c.directory, err)
		}
		if c.directory == "" && p.Missing() == "" {
			t.Errorf("%s is not found missing", c.command)
		}
	}
	if missing := fakeProcess(t, "serve").Missing(); missing != "" {
		t.Error(missing)
	}
}

func TestAProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	p := fakeProcess(t, "stubborn")
	p.StopTimeout = schema.Duration(100 * time.Millisecond)
	m := newManager(t, Settings{"a": p})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	view, _, _ := m.View("a")
	release()
	m.Close()
	if !isGone(view.PID) {
		t.Error("the process is still there")
	}
}

// TestWhatAProcessForksEndsWithIt stops a process that has a child in a session of its own
// and left a daemon behind.
func TestWhatAProcessForksEndsWithIt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets a supervisor adopt orphans")
	}
	pids := filepath.Join(t.TempDir(), "pids")
	m := newManager(t, Settings{"a": fakeProcess(t, "fork", pids)})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	child, daemon := pidIn(t, pids), pidIn(t, pids+".orphan")
	if isGone(child) || isGone(daemon) {
		t.Fatal("they were to be there")
	}
	m.Close()
	if !isGone(child) || !isGone(daemon) {
		t.Error("what the process forked is left")
	}
}

// TestAProcessThatFillsItsOutputIsServed reads 13 MB of output, of which little is kept.
func TestAProcessThatFillsItsOutputIsServed(t *testing.T) {
	t.Parallel()
	m := newManager(t, Settings{"a": fakeProcess(t, "flood")})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	m.Close()
	_, lines, _ := m.View("a")
	if len(lines) != maxLines {
		t.Errorf("%d lines are kept", len(lines))
	}
	if last := lines[len(lines)-1].Text; last != "the last one, without an end" {
		t.Errorf("the last line is %q", last)
	}
}

// TestTheEnvironmentOfAProcessIsClean looks at the variables and files that a process has.
func TestTheEnvironmentOfAProcessIsClean(t *testing.T) {
	for name, value := range map[string]string{"PATCHBAY_MASTER_KEY": "secret", "OPENAI_API_KEY": "secret", "HOME": "/home-of-somebody", "LANG": "C", "CUDA_VISIBLE_DEVICES": "1"} {
		t.Setenv(name, value)
	}
	p := fakeProcess(t, "environment")
	p.Env = map[string]string{"HF_TOKEN": "named", "LANG": "de_DE.UTF-8", "LISTEN": "127.0.0.1:$PORT"}
	p.Directory = t.TempDir()
	m := newManager(t, Settings{"a": p})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	view, lines, _ := m.View("a")
	var texts []string
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	all := strings.Join(texts, "\n")
	if strings.Contains(all, "secret") || strings.Contains(all, "PATCHBAY") {
		t.Errorf("the process sees what is not its own:\n%s", all)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(view.BaseURL, "http://"), ":")
	directory, err := filepath.EvalSymlinks(p.Directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"env HF_TOKEN=named", "env HOME=/home-of-somebody", "env CUDA_VISIBLE_DEVICES=1", "env LANG=de_DE.UTF-8", "env LISTEN=127.0.0.1:" + port, "directory " + directory, "env PATH="} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
	if strings.Count(all, "env LANG=") != 1 {
		t.Errorf("LANG is there twice:\n%s", all)
	}
	pipes := strings.Count(all, " pipe:[")
	if runtime.GOOS == "linux" && pipes != 2 {
		t.Errorf("it has %d pipes, not those of its output alone:\n%s", pipes, all)
	}
}

// TestAPortThatSomebodyElseHasIsReplaced takes the port of a process before it is started.
func TestAPortThatSomebodyElseHasIsReplaced(t *testing.T) {
	t.Parallel()
	moved := make(chan struct{}, 1)
	settings := Settings{"a": fakeProcess(t, "serve")}
	m := keep(New(settings, 0, Options{Log: slog.New(slog.DiscardHandler), Moved: func() { moved <- struct{}{} }}))
	t.Cleanup(m.Close)
	before := m.Address("a", settings["a"])
	thief := exec.Command(os.Args[0], fakeWord, "serve", before[strings.LastIndexByte(before, ':')+1:])
	if err := thief.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = thief.Process.Kill(); _ = thief.Wait() }()
	waittest.Eventually(t, "the port is taken", func() bool { return probe(t.Context(), before) == nil })
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	waittest.Receive(t, "the gateway is told", moved)
	if after := m.Address("a", settings["a"]); after == before {
		t.Error("it has the port that somebody else has")
	}
}

// TestAPortThatIsLostBeforeTheProcessListensIsReplaced takes the port of a process after it was
// given, until the process has another one. A process without a port from the gateway fails.
func TestAPortThatIsLostBeforeTheProcessListensIsReplaced(t *testing.T) {
	t.Parallel()
	for _, losses := range []int{1, portTries - 1, portTries} {
		t.Run(strconv.Itoa(losses), func(t *testing.T) {
			t.Parallel()
			m := newManager(t, Settings{"a": fakeProcess(t, "serve")})
			launched, launch := 0, m.launch
			m.launch = func(p Process, out io.Writer, owned *sync.WaitGroup) (child, error) {
				if launched++; launched <= losses {
					address := strings.TrimPrefix(p.baseURL(), "http://")
					thief, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
					if err != nil {
						return nil, err
					}
					t.Cleanup(func() { _ = thief.Close() })
				}
				return launch(p, out, owned)
			}
			release, err := m.Ensure(waittest.Context(t), "a")
			if isStarted := losses < portTries; isStarted != (err == nil) || launched != min(losses+1, portTries) {
				t.Fatalf("got %v after %d starts, want it to serve: %t", err, launched, isStarted)
			}
			if err == nil {
				release()
			}
		})
	}
}
