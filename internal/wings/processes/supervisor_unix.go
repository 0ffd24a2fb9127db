//go:build unix

package processes

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// The files that a supervisor is started with, beside the output of the process.
const (
	controlFile = 3
	newsFile    = 4
)

// againAfter is the first pause before a supervisor looks for remaining processes again. It
// doubles up to maxPause.
const (
	againAfter = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// supervise starts the process that its arguments describe, as launch wrote them, and
// returns when nothing is left of it. The process is killed when the gateway ends.
func supervise(args []string) {
	// The kernel sends the death signal when the thread that started the process ends, and
	// that thread must therefore live as long as the supervisor.
	runtime.LockOSThread()
	syscall.CloseOnExec(controlFile)
	syscall.CloseOnExec(newsFile)
	closeFiles()
	// Signals to the whole group or service are for the gateway, which decides when its
	// processes end. They are received and not ignored, because the process would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE,
		syscall.SIGQUIT)
	adopt()
	control, news := os.NewFile(controlFile, "control"), os.NewFile(newsFile, "news")
	var task task
	if control == nil || news == nil || len(args) <= taskArgument ||
		json.Unmarshal([]byte(args[taskArgument]), &task) != nil {
		return
	}
	tell := func(what report) {
		line, _ := json.Marshal(what)
		_, _ = news.Write(append(line, '\n'))
	}
	pid, err := begin(task.Directory, task.Command)
	if err != nil {
		tell(report{Ending: &ending{Fault: say.New("process.unstarted", "why", err)}})
		return
	}
	tell(report{PID: pid})
	s := supervisor{task: task, pid: pid, status: make(chan syscall.WaitStatus, 1), over: make(chan struct{})}
	var reaping sync.WaitGroup
	reaping.Go(s.reap)
	defer reaping.Wait()
	s.obey(follow(control))
	select {
	case end := <-s.status:
		if end.Signaled() {
			tell(report{Ending: &ending{Signal: end.Signal().String(), Code: int(end.Signal())}})
		} else {
			tell(report{Ending: &ending{Code: end.ExitStatus()}})
		}
	default: // it was nobody's child any more
	}
}

// supervisor is the supervisor of a process that runs.
type supervisor struct {
	task   task
	pid    int
	status chan syscall.WaitStatus // of the process, when it has ended
	ended  atomic.Bool             // the process has ended
	over   chan struct{}           // is closed when no child is left

	mu      sync.Mutex
	stopper int           // the process of the stop command
	stopped chan struct{} // is closed when it has ended; nil before it is started
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// begin starts the process in a group of its own.
func begin(directory string, command []string) (pid int, err error) {
	if directory != "" {
		if err := os.Chdir(directory); err != nil {
			return 0, err
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return 0, say.Error("process.no_program", "program", command[0])
		}
		return 0, err
	}
	pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   attributes(),
	})
	if err != nil {
		return 0, say.Error("process.bad_program", "program", path, "why", err.Error())
	}
	return pid, nil
}

// follow returns the gateway's orders: true ends the process in peace, false ends
// everything at once, as does the end of the gateway.
func follow(control io.Reader) <-chan bool {
	orders := make(chan bool)
	go func() {
		one := make([]byte, 1)
		for {
			if _, err := io.ReadFull(control, one); err != nil {
				orders <- false
				return
			}
			orders <- one[0] == commandTerminate
		}
	}()
	return orders
}

// obey carries out the gateway's orders until nothing is left of the process.
func (s *supervisor) obey(orders <-chan bool) {
	for {
		select {
		case inPeace := <-orders:
			switch isAsked := s.ask(); {
			case !inPeace:
				if isAsked { // otherwise a container, say, would outlive the process
					s.awaitStop()
				}
				s.sweep()
				return
			case !isAsked:
				s.terminate()
			}
		case end := <-s.status:
			s.status <- end // there is room, because only one comes
			s.awaitStop()
			s.sweep()
			return
		}
	}
}

// ask runs the stop command. It returns false where there is none, or it was run before.
func (s *supervisor) ask() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.task.Stop) == 0 || s.stopped != nil || s.ended.Load() {
		return false
	}
	pid, err := begin("", replaced(s.task.Stop, pidWord, strconv.Itoa(s.pid)))
	if err != nil {
		_, _ = os.Stdout.WriteString("the stop command cannot be started: " + oneLine(err) + "\n")
		return false
	}
	s.stopper, s.stopped = pid, make(chan struct{})
	return true
}

// awaitStop waits for the stop command, if it runs, as long as its patience allows.
func (s *supervisor) awaitStop() {
	if s.stopped == nil {
		return
	}
	select {
	case <-s.stopped:
	case <-time.After(s.task.Patience.Std()):
	}
}

func (s *supervisor) terminate() {
	if !s.ended.Load() {
		_ = syscall.Kill(-s.pid, syscall.SIGTERM)
	}
}

// reap waits for all children, adopted ones included, until none is left.
func (s *supervisor) reap() {
	defer close(s.over)
	for {
		var status syscall.WaitStatus
		done, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case done == s.pid:
			s.ended.Store(true)
			s.status <- status
		default:
			s.reaped(done, status)
		}
	}
}

// reaped notes the end of the stop command. If it has failed, the process gets SIGTERM.
func (s *supervisor) reaped(pid int, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid != s.stopper {
		return
	}
	s.stopper = 0
	close(s.stopped)
	if status.ExitStatus() != 0 && !s.ended.Load() {
		_, _ = os.Stdout.WriteString("the stop command has failed\n")
		s.terminate()
	}
}

// sweep kills everything that the process has started, until nothing is left of it.
func (s *supervisor) sweep() {
	for pause := againAfter; ; pause = min(2*pause, maxPause) {
		s.killAll()
		select {
		case <-s.over:
			return
		case <-time.After(pause):
		}
	}
}
