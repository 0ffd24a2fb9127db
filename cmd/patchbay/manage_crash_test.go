package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// kill -9 amid a stream of changes: whatever was acknowledged is there.
func TestAcknowledgedChangesSurviveCrashes(t *testing.T) {
	t.Parallel()
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	var acknowledged []string
	for round := range rounds {
		p := serving(t, "--data-dir", dir)
		list := p.ask(http.MethodGet, gatewaytest.InstancesPath+"chat", "").Succeeds(t).Body
		for _, name := range acknowledged {
			if !strings.Contains(list, `"name":"`+name+`"`) {
				t.Fatalf("round %d: %s was acknowledged and is gone", round, name)
			}
		}
		ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
		done := make(chan []string)
		go func() { done <- addUntilDead(ctx, p, round) }()
		timer := time.NewTimer(time.Duration(rand.IntN(40)) * time.Millisecond)
		<-timer.C
		p.kill()
		cancel()
		acknowledged = append(acknowledged, <-done...)
	}
	t.Logf("%d changes were acknowledged", len(acknowledged))
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged at all")
	}
}

// addUntilDead adds instances one after the other and returns those that the
// gateway said it has.
func addUntilDead(ctx context.Context, p *child, round int) []string {
	var names []string
	for n := 0; ; n++ {
		name := fmt.Sprintf("i-%d-%d", round, n)
		response, err := p.send(ctx, http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":"http://127.0.0.1:1"}`, name))
		if err != nil {
			return names
		}
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusCreated {
			return names
		}
		names = append(names, name)
	}
}
