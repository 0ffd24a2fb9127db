//go:build unix

package processes

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// stopping starts a process that has a stop command, and stops it. It returns the number of the
// process and the lines that it wrote.
func stopping(t *testing.T, p Process) (pid int, lines string) {
	t.Helper()
	m := newManager(t, Settings{"a": p})
	release, err := m.Ensure(waittest.Context(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	view, _, _ := m.View("a")
	if err := m.Stop("a"); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it is stopped", func() bool { state, _ := m.StateOf("a"); return state == Stopped })
	if !isGone(view.PID) {
		t.Error("the process is still there")
	}
	_, written, _ := m.View("a")
	for _, line := range written {
		lines += line.Text + "\n"
	}
	return view.PID, lines
}

// TestAStopCommandEndsAProcess has a process that does not hear SIGTERM, and a command that
// goes on for a moment after the process has ended.
func TestAStopCommandEndsAProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "end")
	p := fakeProcess(t, "deaf", file)
	p.Env = map[string]string{"END": file}
	p.Stop = []string{`sh -c 'echo "$1 $2 $0" >"$END"; sleep 0.2; echo done >"$END.done"' $PID $PORT 'two words'`}
	p.StopTimeout = schema.Duration(waittest.Limit)
	pid, _ := stopping(t, p)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) != 4 || fields[3] != strconv.Itoa(pid) {
		t.Errorf("the command was given %q, the process is %d", text, pid)
	}
	if _, err := os.Stat(file + ".done"); err != nil {
		t.Errorf("the stop command was interrupted: %v", err)
	}
}

// TestASignalFollowsAStopCommand has stop commands that end nothing.
func TestASignalFollowsAStopCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop       string
		mode, said string
		timeout    time.Duration
	}{
		"it fails":                {"false", "serve", "the stop command has failed", waittest.Limit},
		"it is not there":         {"/no/such/program", "serve", "the stop command cannot be started", waittest.Limit},
		"it does nothing":         {"true", "serve", "", 100 * time.Millisecond},
		"it hangs":                {"sleep 3600", "serve", "", 100 * time.Millisecond},
		"it hangs, nothing helps": {"sleep 3600", "stubborn", "", 100 * time.Millisecond},
		"it fails, nothing helps": {"false", "stubborn", "has failed", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fakeProcess(t, c.mode)
			p.Stop, p.StopTimeout = []string{c.stop}, schema.Duration(c.timeout)
			if _, lines := stopping(t, p); !strings.Contains(lines, c.said) {
				t.Errorf("it says %q", lines)
			}
		})
	}
}

// TestAStopCommandRunsWhenTheGatewayIsKilled closes the pipe to the supervisor, as the kernel
// does then. What the process started in another place, such as a container, ends too.
func TestAStopCommandRunsWhenTheGatewayIsKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "end")
	p := fakeProcess(t, "hang")
	p.Env, p.Stop = map[string]string{"END": file}, []string{"sh", "-c", `echo ended >"$END"`}
	var running sync.WaitGroup
	c, err := launch(p.withPort(1), io.Discard, &running)
	if err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "it runs", func() bool { return c.PID() != 0 })
	c.Kill()
	running.Wait()
	if _, err := os.Stat(file); err != nil || !isGone(c.PID()) {
		t.Errorf("the process is gone: %v, its stop command: %v", isGone(c.PID()), err)
	}
}
