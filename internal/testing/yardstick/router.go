package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/patchbay-ai/patchbay/internal/testing/replay"
)

// startRouter starts the router of a strategy in front of engines: the gateway with that strategy
// or, where a script has its name, another router.
func (o *overHTTP) startRouter(ctx context.Context, strategy, adapter string, urls []string) (*process, error) {
	script, err := filepath.Abs(filepath.Join(o.routers, strategy+".sh"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(script)
	if err != nil {
		return startGateway(ctx, o.binary, replay.Service(strategy, adapter, urls))
	}
	health := healthLine.FindSubmatch(text)
	if health == nil {
		return nil, fmt.Errorf("%s has no line \"# health: /path\"", script)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "yardstick")
	if err != nil {
		return nil, err
	}
	// The script becomes the router, so that a signal reaches it.
	cmd := exec.CommandContext(ctx, "bash", append([]string{script, address, dir}, urls...)...)
	p, err := start(ctx, address, string(health[1]), cmd)
	if err != nil {
		_ = os.RemoveAll(dir) // it is empty or of no use
		return nil, err
	}
	p.dir = dir
	return p, nil
}

// healthLine is the line of a script with the path on which its router answers when it is ready.
var healthLine = regexp.MustCompile(`(?m)^# health: (/\S*)$`)
