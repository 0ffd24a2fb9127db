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

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
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
		names := make(chan string, 1000)
		go addUntilDead(ctx, p, round, names)
		// The process is killed while it works on a change: some are waited for, however
		// long they take, and others follow.
		for range rand.IntN(5) {
			name, isAlive := <-names
			if !isAlive {
				t.Fatalf("round %d: a change was refused", round)
			}
			acknowledged = append(acknowledged, name)
		}
		timer := time.NewTimer(time.Duration(rand.IntN(5000)) * time.Microsecond)
		<-timer.C
		p.kill()
		for name := range names {
			acknowledged = append(acknowledged, name)
		}
		cancel()
	}
	t.Logf("%d changes were acknowledged", len(acknowledged))
}

// addUntilDead adds instances one after the other and passes on the names of those that
// the gateway said it has.
func addUntilDead(ctx context.Context, p *child, round int, names chan<- string) {
	defer close(names)
	for n := 0; ; n++ {
		name := fmt.Sprintf("i-%d-%d", round, n)
		response, err := p.send(ctx, http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":"http://127.0.0.1:1"}`, name))
		if err != nil {
			return
		}
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusCreated {
			return
		}
		names <- name
	}
}
