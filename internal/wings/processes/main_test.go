package processes

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeWord makes the test binary a model server that behaves as its next argument says.
const fakeWord = "fake-model-server"

func TestMain(m *testing.M) {
	if Supervise(os.Args) {
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == fakeWord {
		fake(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake is a model server. Its modes are what real ones do at their worst.
func fake(mode string, args []string) {
	switch mode {
	case "serve": // port
		serve(args[0], http.StatusOK)
	case "loading": // port: it never becomes ready
		serve(args[0], http.StatusServiceUnavailable)
	case "hang":
		<-time.After(time.Hour)
	case "die":
		fmt.Fprintln(os.Stdout, "cannot load the model")
		os.Exit(3)
	case "stubborn": // port
		signal.Ignore(syscall.SIGTERM)
		serve(args[0], http.StatusOK)
	case "deaf": // port, file to end by: it ends when the file is there
		signal.Ignore(syscall.SIGTERM)
		go serve(args[0], http.StatusOK)
		for {
			if _, err := os.Stat(args[1]); err == nil {
				os.Exit(0)
			}
			<-time.After(10 * time.Millisecond)
		}
	case "flood": // port
		listener := listen(args[0]) // before all that takes long: in the meantime another test could be given the port
		go func() {
			long := strings.Repeat("x", 64<<10)
			for range 200 {
				fmt.Fprintln(os.Stdout, long)
			}
			for n := range 20_000 {
				fmt.Fprintln(os.Stdout, "line", n)
			}
			fmt.Fprint(os.Stdout, "the last one, without an end")
			serveAt(listener, http.StatusOK)
		}()
		<-time.After(time.Hour)
	case "fork": // port, file of the pids of a child and of a grandchild in a session of its own
		child := again("hang")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(child.Start())
		orphan := again("orphan", args[1]+".orphan")
		must(orphan.Run())
		must(os.WriteFile(args[1], []byte(fmt.Sprint(child.Process.Pid)), 0o600))
		serve(args[0], http.StatusOK)
	case "orphan": // a daemon: its parent ends and it goes on in a session of its own
		daemon := again("hang")
		daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(daemon.Start())
		must(os.WriteFile(args[0], []byte(fmt.Sprint(daemon.Process.Pid)), 0o600))
	case "environment": // port
		names := os.Environ()
		slices.Sort(names)
		for _, line := range names {
			fmt.Fprintln(os.Stdout, "env", line)
		}
		directory, _ := os.Getwd()
		fmt.Fprintln(os.Stdout, "directory", directory)
		files, _ := os.ReadDir("/proc/self/fd")
		for _, file := range files {
			to, _ := os.Readlink("/proc/self/fd/" + file.Name())
			fmt.Fprintln(os.Stdout, "file", file.Name(), to)
		}
		serve(args[0], http.StatusOK)
	}
}

func again(args ...string) *exec.Cmd {
	return exec.Command(os.Args[0], append([]string{fakeWord}, args...)...)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(9)
	}
}

func serve(port string, status int) { serveAt(listen(port), status) }

func listen(port string) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	must(err)
	return listener
}

func serveAt(listener net.Listener, status int) {
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/crash" {
			os.Exit(4)
		}
		w.WriteHeader(status)
	})}
	_ = server.Serve(listener)
}
