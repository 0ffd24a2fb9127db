package manage_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
)

// A thousand changes under traffic: nothing is refused that could be served, no
// stream is cut, and what is in flight is counted without a gap.
func TestChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	changes, callers := 1000, 32
	if testing.Short() {
		changes = 100
	}
	steady, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(steady)+"limits: {idle-timeout: 10m}\n") // it serves all the time; what changes is around it
	held := gatewaytest.StartHeldBackend(t)
	r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"held","baseUrl":%q}`, held.URL)).Is(t, 201)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // a thousand synced writes take their time
	defer cancel()
	stream := r.Stream(ctx, strings.Replace(gatewaytest.StreamHi, `"m"`, `"held"`, 1))
	<-held.Entered
	if first, err := stream.Next(); err != nil || !strings.Contains(first, `"first"`) {
		t.Fatalf("%q, %v", first, err)
	}
	state := r.Instances("m")[0].State
	var stop atomic.Bool
	var sent, bad atomic.Int64
	var traffic sync.WaitGroup
	for n := range callers {
		traffic.Go(func() {
			body := gatewaytest.PlainHi
			if n%2 == 0 {
				body = gatewaytest.StreamHi
			}
			pace := time.NewTicker(20 * time.Millisecond) // the two cores are for the changes, too
			defer pace.Stop()
			for !stop.Load() {
				<-pace.C
				sent.Add(1)
				if problem := whole(ctx, r, body); problem != "" && bad.Add(1) < 5 {
					t.Error(problem)
				}
			}
		})
	}
	// A busy machine, or one that looks for races, is excused from the last ones.
	patience := time.Now().Add(15 * time.Second)
	for n := range changes {
		if n >= 100 && n%5 == 0 && time.Now().After(patience) {
			changes = n
			break
		}
		change(t, r, n, steady.URL(), other.URL())
	}
	t.Logf("%d changes, %d requests", changes, sent.Load())
	stop.Store(true)
	traffic.Wait()

	if got := r.Instances("m")[0].State; got != state {
		t.Error("the state of an instance that was there all the time began anew")
	}
	ended := state.Ended(breaker.Success) + state.Ended(breaker.Failure) + state.Ended(breaker.Cancelled)
	if state.InFlight() != 0 || state.Ended(breaker.Failure) != 0 || ended == 0 || ended > sent.Load() {
		t.Errorf("%d in flight, %d failed, %d ended of %d", state.InFlight(), state.Ended(breaker.Failure), ended, sent.Load())
	}
	// The stream's own instance was deleted long ago, and lives until it ends.
	close(held.Open)
	rest, err := stream.Rest()
	rest = slices.DeleteFunc(rest, func(event string) bool { return strings.HasPrefix(event, ":") }) // it was silent for long
	if err != nil || len(rest) != 2 || rest[1] != "[DONE]" {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
	if got := r.Control.Version(); got < changes {
		t.Errorf("version %d after %d changes", got, changes)
	}
}

// change makes the n-th change.
func change(t *testing.T, r *gatewaytest.Gateway, n int, steady, other string) {
	t.Helper()
	switch n % 5 {
	case 0:
		r.API("PUT", gatewaytest.UpdateInstancePath+"chat", fmt.Sprintf(`{"instanceId":"m@%s","instance":{"weight":%d}}`, steady, n%7+1)).Is(t, 200)
	case 1:
		r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q}`, other)).Is(t, 201)
	case 2:
		r.API("PUT", gatewaytest.TypesPath+"chat", fmt.Sprintf(`{"rateLimit":{"capacity":1000000,"refillRate":%d}}`, 1_000_000+n)).Is(t, 200)
	case 3:
		r.API("DELETE", "/api/config/instance/del/chat?modelName=m&baseUrl="+other, "").Is(t, 200)
	case 4:
		strategy := []string{"random", "round_robin", "least_connections", "ip_hash"}[n/5%4]
		r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"`+strategy+`"}`).Is(t, 200)
	}
	if n == 50 {
		r.API("DELETE", "/api/config/instance/del/chat?modelName=held&baseUrl="+heldURL(r), "").Is(t, 200)
	}
}

// heldURL finds where the instance called held is.
func heldURL(r *gatewaytest.Gateway) string { return r.Instances("held")[0].Settings.BaseURL }

// whole sends a request and says what is wrong with the answer.
func whole(ctx context.Context, r *gatewaytest.Gateway, body string) string {
	request := r.Request(ctx, http.MethodPost, "/v1/chat/completions", body)
	response, err := r.Client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return "the answer was cut: " + err.Error()
	case response.StatusCode != http.StatusOK:
		return fmt.Sprintf("status %d: %s", response.StatusCode, content)
	case body == gatewaytest.StreamHi && !strings.HasSuffix(string(content), "data: [DONE]\n\n"):
		return fmt.Sprintf("half a stream: %s", content)
	}
	return ""
}
