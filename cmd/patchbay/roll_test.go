package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Two gateways behind the nginx of deploy/nginx are restarted in turn, three times, as
// docs/upgrading.md says, under steady traffic: every request has its answer, also with a third
// gateway that is away all the time.
func TestARollLosesNoRequest(t *testing.T) {
	t.Parallel()
	u := newTutorial(t, "upgrading.md", "Zero downtime")
	nginx := u.command("nginx -v")
	if err := nginx.Run(); err != nil {
		t.Skip("nginx is not installed")
	}
	b := gatewaytest.StartBackend(t)
	file := filepath.Join(u.dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	u.copyFile("deploy/nginx/patchbay.conf")
	start := func(address string) *child {
		address = u.ports.Replace(address)
		c := startChild(t, "serve", "--config", file, "--data-dir", filepath.Join(u.dir, address), "--listen", address)
		gatewaytest.Eventually(t, "the gateway is ready", func() bool {
			return exec.CommandContext(gatewaytest.Deadline(t), binary, "healthcheck", "--url", "http://"+address).Run() == nil
		})
		return c
	}
	addresses := []string{"127.0.0.1:8081", "127.0.0.1:8082"}
	gateways := []*child{start(addresses[0]), start(addresses[1])}
	u.start("nginx -p " + u.dir + " -c deploy/nginx/patchbay.conf")
	ctx := gatewaytest.Deadline(t)
	gatewaytest.Eventually(t, "nginx answers", func() bool { return u.answers(ctx, "127.0.0.1:8080") })

	var stop atomic.Bool
	var answered, lost atomic.Int64
	var clients sync.WaitGroup
	client := &http.Client{Transport: new(http.Transport)}
	url := "http://" + u.ports.Replace("127.0.0.1:8080") + "/v1/chat/completions"
	for range 8 {
		clients.Go(func() {
			for !stop.Load() {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(gatewaytest.PlainHi))
				if err != nil {
					t.Error(err)
					return
				}
				response, err := client.Do(request)
				if err != nil || response.StatusCode != http.StatusOK {
					lost.Add(1)
				}
				if err == nil {
					_ = response.Body.Close()
				}
				answered.Add(1)
			}
		})
	}
	for range 3 {
		for n, address := range addresses {
			gateways[n].signal(syscall.SIGTERM)
			gateways[n].exits(0)
			gateways[n] = start(address)
		}
	}
	stop.Store(true)
	clients.Wait()
	if lost.Load() > 0 || answered.Load() < 100 {
		t.Errorf("%d of %d requests were lost", lost.Load(), answered.Load())
	}
	t.Logf("%d requests", answered.Load())
}
