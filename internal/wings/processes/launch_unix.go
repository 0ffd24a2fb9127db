//go:build unix

package processes

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// outputDelay bounds the wait for the rest of the output of an ended process.
const outputDelay = time.Second

// supervised is a process behind its supervisor.
type supervised struct {
	pid     atomic.Int64
	control *os.File
	closing sync.Once
	done    chan struct{}
	ending  ending
}

// launch starts a process, and its supervisor. The output of the process goes to out.
func launch(p Process, out io.Writer, owned *sync.WaitGroup) (child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args, err := task{p.Directory, p.StopTimeout, p.Stop, p.Command}.arguments()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe" // is there even if another version was installed since
	}
	var opened []*os.File
	defer func() { // the gateway does not need the supervisor's ends
		for _, file := range opened {
			_ = file.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	orders, control := pipe()
	news, tell := pipe()
	written, write := pipe()
	if err != nil {
		opened = append(opened, orders, control, news, tell, written, write)
		return nil, err
	}
	opened = append(opened, orders, tell, write)
	cmd := &exec.Cmd{
		Path:        program,
		Args:        args,
		Env:         processEnvironment(p),
		Stdout:      write,
		Stderr:      write,
		ExtraFiles:  []*os.File{orders, tell},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		opened = append(opened, control, news, written)
		return nil, err
	}
	s := &supervised{control: control, done: make(chan struct{}), ending: ending{IsLost: true}}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(out, written) })
	owned.Go(func() {
		defer close(s.done)
		s.follow(news)
		_ = cmd.Wait()
		_ = news.Close()
		_ = written.SetReadDeadline(time.Now().Add(outputDelay))
		reading.Wait()
		_ = written.Close()
		s.Kill()
	})
	return s, nil
}

// follow reads the supervisor's lines until it ends.
func (s *supervised) follow(news io.Reader) {
	lines := bufio.NewScanner(news)
	for lines.Scan() {
		var what report
		if json.Unmarshal(lines.Bytes(), &what) != nil {
			continue
		}
		if what.PID != 0 {
			s.pid.Store(int64(what.PID))
		}
		if what.Ending != nil {
			s.ending = *what.Ending
		}
	}
}

// PID returns the number of the process, 0 before it is known.
func (s *supervised) PID() int { return int(s.pid.Load()) }

// Terminate asks the process to end.
func (s *supervised) Terminate() { _, _ = s.control.Write([]byte{commandTerminate}) }

// Kill ends the process and everything it started.
func (s *supervised) Kill() { s.closing.Do(func() { _ = s.control.Close() }) }

// Done is closed when nothing is left of the process.
func (s *supervised) Done() <-chan struct{} { return s.done }

// Ending tells how the process ended.
func (s *supervised) Ending() ending { return s.ending }

// missing says why a program cannot be started.
func missing(program, directory string, path []string) string {
	if filepath.Base(program) != program {
		if !filepath.IsAbs(program) {
			program = filepath.Join(directory, program)
		}
		return notProgram(program)
	}
	for _, folder := range path {
		if folder != "" && notProgram(filepath.Join(folder, program)) == "" {
			return ""
		}
	}
	return program + " is in no folder of PATH"
}

func notProgram(file string) string {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err.Error()
	case info.IsDir() || info.Mode()&0o111 == 0:
		return file + " is no program"
	}
	return ""
}
