package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a started server, with the text of its log.
type process struct {
	url string
	cmd *exec.Cmd
	log bytes.Buffer
	dir string
	// ended is closed when the server has ended.
	ended   chan struct{}
	waiting sync.WaitGroup
}

// startTime is how long a server may take to start.
const startTime = time.Minute

// freeAddress returns an address on loopback that nothing listens on.
func freeAddress() (string, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// start starts a server and waits until it answers on a path.
func start(ctx context.Context, address, health string, cmd *exec.Cmd) (*process, error) {
	p := &process{url: "http://" + address, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.waiting.Go(func() {
		defer close(p.ended)
		_ = cmd.Wait() // its log says why it ended
	})
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	client := &http.Client{Timeout: startTime}
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+health, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case <-p.ended:
		case <-ctx.Done():
		}
		p.stop()
		return nil, fmt.Errorf("%s does not answer; its log:\n%s", cmd.Path, p.log.String())
	}
}

// stop ends the server.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is waited for below
	kill := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	p.waiting.Wait()
	kill.Stop()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

// startGateway starts a gateway with this configuration of its services.
func startGateway(ctx context.Context, binary, services string) (*process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "yardstick")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "patchbay.yaml")
	if err := os.WriteFile(file, []byte(services), 0o600); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, address, "/actuator/health",
		exec.CommandContext(ctx, path, "serve", file, "--listen", address, "--data-dir", filepath.Join(dir, "data")))
	if err != nil {
		return nil, err
	}
	p.dir = dir
	return p, nil
}
