package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// rig is everything that runs during a measurement.
type rig struct {
	dir      string
	started  []*exec.Cmd
	gateways []*gateway
	idle     map[string]float64 // anonymous MiB before any load, by gateway
	began    map[string]float64 // milliseconds from the start to the first answer, by gateway
}

// gateway is one program that is measured.
type gateway struct {
	name, address string
	pid           int
	keys          int // how many API keys its callers have
}

// start starts the backend and every gateway, and waits until all answer. After an error
// the rig has the processes that were started.
func start(dir string, o options) (*rig, error) {
	r := &rig{dir: dir, idle: map[string]float64{}, began: map[string]float64{}}
	backend, err := freeAddress()
	if err != nil {
		return r, err
	}
	if _, err := r.run("backend", self(), "backend", backend); err != nil {
		return r, err
	}
	if o.doors {
		return r, r.addVariants(o, backend)
	}
	if path := nginxPath(); path == "" {
		fmt.Fprintln(os.Stderr, "nginx is not installed: the ratios are to the bare proxy")
	} else if err := r.add("nginx", func(address string) ([]string, error) {
		conf := filepath.Join(dir, "nginx.conf")
		return []string{path, "-p", dir, "-c", conf}, os.WriteFile(conf, []byte(nginxConf(dir, address, backend, o.streams)), 0o600)
	}); err != nil {
		return r, err
	}
	if err := r.add("bare Go", func(address string) ([]string, error) {
		return []string{self(), "proxy", address, backend}, nil
	}); err != nil {
		return r, err
	}
	if err := r.addVariants(o, backend); err != nil {
		return r, err
	}
	return r, r.addOthers(o, backend)
}

// addOthers starts programs of other people, each by a script that gets an address to listen
// on, the address of the backend and a directory.
func (r *rig) addOthers(o options, backend string) error {
	for _, other := range o.beside {
		name, script, _ := strings.Cut(other, "=")
		if err := r.add(name, func(address string) ([]string, error) {
			dir := filepath.Join(r.dir, name)
			return []string{"sh", script, address, backend, dir}, os.Mkdir(dir, 0o700)
		}); err != nil {
			return err
		}
	}
	return nil
}

// addVariants starts every measured variant of Patchbay.
func (r *rig) addVariants(o options, backend string) error {
	for _, v := range variants(o) {
		if err := r.addPatchbay(v, backend); err != nil {
			return err
		}
	}
	return nil
}

// addPatchbay starts Patchbay with its defaults, the access log on and written to a
// file.
func (r *rig) addPatchbay(v variant, backend string) error {
	return r.addWithKeys(v.name, v.keys, func(address string) ([]string, error) {
		data := filepath.Join(r.dir, v.name)
		conf := data + ".yaml"
		return []string{v.binary, "serve", "--listen", address, "--data-dir", data, "--config", conf}, os.WriteFile(conf, []byte(v.config(backend)), 0o600)
	})
}

func (r *rig) add(name string, command func(address string) ([]string, error)) error {
	return r.addWithKeys(name, 0, command)
}

// startTime is how long a program may take to answer its first request.
const startTime = 2 * time.Minute

// addWithKeys starts a gateway whose callers have so many keys and waits until it answers.
func (r *rig) addWithKeys(name string, keys int, command func(address string) ([]string, error)) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	args, err := command(address)
	if err != nil {
		return err
	}
	cmd, err := r.run(name, args...)
	if err != nil {
		return err
	}
	began := time.Now()
	g := &gateway{name: name, address: address, pid: cmd.Process.Pid, keys: keys}
	first := coldWorkload()
	first.connections = 1
	for {
		_, err := load(address, first, 0, keys)
		if err == nil {
			break
		}
		if time.Since(began) > startTime {
			return fmt.Errorf("%s does not answer: %w; see its log:\n%s", name, err, r.log(name))
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.began[name] = float64(time.Since(began).Microseconds()) / 1000
	time.Sleep(200 * time.Millisecond) // its work after it has begun to listen
	idle, err := g.memory()
	r.idle[name] = float64(idle) / (1 << 20)
	r.gateways = append(r.gateways, g)
	return err
}

// run starts a process and sends its output to a file.
func (r *rig) run(name string, args ...string) (*exec.Cmd, error) {
	out, err := os.Create(r.logName(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.started = append(r.started, cmd)
	return cmd, nil
}

func (r *rig) logName(name string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-")+".log")
}

func (r *rig) log(name string) string {
	text, _ := os.ReadFile(r.logName(name))
	return string(text[:min(len(text), 2000)])
}

// stop ends the started processes.
func (r *rig) stop() {
	for _, cmd := range r.started {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range r.started {
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	}
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}

// cpu returns the processor time that the gateway and its children have used.
func (g *gateway) cpu() (time.Duration, error) {
	var total time.Duration
	for _, pid := range family(g.pid) {
		used, err := cpuOf(pid)
		if err != nil && pid == g.pid {
			return 0, err
		}
		total += used // nothing of a child that has ended
	}
	return total, nil
}

// cpuOf returns the processor time of a process by its clock, which is exact:
// /proc/PID/stat counts in hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	const schedulerClock = 2
	var used syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedulerClock), uintptr(unsafe.Pointer(&used)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("the clock of process %d: %w", pid, errno)
	}
	return time.Duration(used.Nano()), nil
}

// statOf returns the fields of a process from its state on.
func statOf(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.Fields(after), nil
}

// family returns a process and its children.
func family(pid int) []int {
	all := []int{pid}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields, err := statOf(child); err == nil && fields[1] == strconv.Itoa(pid) {
			all = append(all, child)
		}
	}
	return all
}

// memory returns the anonymous memory (RssAnon) of the gateway and its children in bytes.
// Pages of their files do not count: the system takes them back when it needs them.
func (g *gateway) memory() (int64, error) {
	var total int64
	for _, pid := range family(g.pid) {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		_, rest, found := strings.Cut(string(status), "RssAnon:")
		if pid != g.pid && (err != nil || !found) {
			continue // a child that has ended
		}
		if err != nil {
			return 0, err
		}
		line, _, _ := strings.Cut(rest, " kB")
		kib, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if !found || err != nil {
			return 0, fmt.Errorf("process %d says nothing of its anonymous memory", pid)
		}
		total += kib << 10
	}
	return total, nil
}

// peakDuring returns the most memory that the gateway had while something ran.
func (g *gateway) peakDuring(something func() error) (peak int64, err error) {
	done := make(chan error, 1)
	go func() { done <- something() }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return peak, err
		case <-ticker.C:
			now, err := g.memory()
			if err != nil {
				return peak, err
			}
			peak = max(peak, now)
		}
	}
}

// nginxPath returns the path of nginx, which is often outside the users' PATH, or an
// empty text.
func nginxPath() string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// nginxConf is nginx as a gateway for streams would have it: connections are kept,
// nothing is buffered on disk, and nothing is logged.
func nginxConf(dir, address, backend string, streams int) string {
	return fmt.Sprintf(`daemon off;
worker_processes 1;
worker_rlimit_nofile %[4]d;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx-error.log;
events { worker_connections %[4]d; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_max_body_size 64m;
  client_body_buffer_size 256k;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  upstream backend {
    server %[3]s;
    keepalive 4096;
    keepalive_requests 1000000000;
  }
  server {
    listen %[2]s backlog=4096;
    location / {
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_buffer_size 32k;
      proxy_buffers 8 32k;
    }
  }
}
`, dir, address, backend, max(8192, 3*streams)) // a stream has two connections
}
