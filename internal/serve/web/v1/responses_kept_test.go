package v1_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// keptRequests asks for all that can be asked about a response.
var keptRequests = []struct{ method, path string }{{"GET", ""}, {"GET", "/input_items"}, {"DELETE", ""}}

// Responses are those of the key that made them, also after its text was rotated, and not
// those of a key that is issued later under the same id: wherever they are kept, and by
// whomever.
func TestAKeyThatIsIssuedAgainSeesNothingOfItsPredecessor(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	for _, store := range []string{"memory", "redis"} {
		for _, keeper := range []string{"gateway", "backend"} {
			t.Run(store+", kept by the "+keeper, func(t *testing.T) {
				t.Parallel()
				yaml := gatewaytest.SecuredYAML()
				if store == "redis" {
					yaml += "responses: {shared: true}\nredis: {url: '" + storetest.Redis(t).URL + "'}\n"
				}
				if keeper == "backend" {
					yaml += gatewaytest.ChatYAML(nativeInstance(startNative(t, "n")))
				} else {
					yaml += gatewaytest.PoolYAML(gatewaytest.StartBackend(t))
				}
				r := gatewaytest.Start(t, yaml)
				r.BackendsLie = keeper == "backend" // its list of items is none
				testIssuedAgain(t, r)
			})
		}
	}
}

func testIssuedAgain(t *testing.T, r *gatewaytest.Gateway) {
	admin := []string{"Authorization", "Bearer admin-token"}
	bearerOf := func(reply gatewaytest.ManagementReply) []string {
		return []string{"Authorization", "Bearer " + gatewaytest.DataOf[struct {
			Key string `json:"key"`
		}](t, reply).Key}
	}
	first := bearerOf(r.API("POST", "/api/auth/keys", `{"id":"team"}`, admin...).Is(t, 201))
	made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a secret"}`, first...).Succeeds(t).Body)
	continued := `{"model":"m","input":"b","previous_response_id":"` + made.ID + `"}`
	rotated := bearerOf(r.API("POST", "/api/auth/keys/team/rotate", `{}`, admin...).Is(t, 200))
	for _, bearer := range [][]string{first, rotated} {
		r.Do("GET", responsesPath+"/"+made.ID, "", bearer...).Succeeds(t)
		r.Do("POST", responsesPath, continued, bearer...).Succeeds(t)
	}
	r.API("DELETE", "/api/auth/keys/team", "", admin...).Is(t, 200)
	again := bearerOf(r.API("POST", "/api/auth/keys", `{"id":"team"}`, admin...).Is(t, 201))
	for _, request := range keptRequests {
		r.Do(request.method, responsesPath+"/"+made.ID+request.path, "", again...).FailsWith(t, 404, "not_found_error", "response_not_found", "")
	}
	if got := r.Do("POST", responsesPath, continued, again...); got.Status != 400 {
		t.Errorf("it is continued: %d %s", got.Status, got.Body)
	}
	own := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"mine"}`, again...).Succeeds(t).Body)
	for _, request := range keptRequests {
		r.Do(request.method, responsesPath+"/"+own.ID+request.path, "", again...).Succeeds(t)
	}
}

// A key of the file that has another text is another key.
func TestAnotherKeyOfTheFileWithTheSameIDSeesNothing(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	yaml := gatewaytest.PoolYAML(gatewaytest.StartBackend(t)) + "responses: {shared: true}\nredis: {url: '" + redis.URL + "'}\nsecurity: {enabled: true, keys: [{id: team, key-sha256: %s}]}\n"
	before := gatewaytest.Start(t, fmt.Sprintf(yaml, gatewaytest.HashOf("before")))
	made := decodeResponse(t, before.Do("POST", responsesPath, `{"model":"m","input":"a"}`, "Authorization", "Bearer before").Succeeds(t).Body)
	same := gatewaytest.Start(t, fmt.Sprintf(yaml, gatewaytest.HashOf("before")))
	same.Do("GET", responsesPath+"/"+made.ID, "", "Authorization", "Bearer before").Succeeds(t)
	after := gatewaytest.Start(t, fmt.Sprintf(yaml, gatewaytest.HashOf("after")))
	after.Do("GET", responsesPath+"/"+made.ID, "", "Authorization", "Bearer after").FailsWith(t, 404, "not_found_error", "response_not_found", "")
}

// What one key has kept leaves room for what others keep.
func TestOneKeyDoesNotPushOutTheResponsesOfOthers(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t))+fmt.Sprintf("responses: {max-bytes: 1MiB}\nsecurity: {enabled: true, keys: [{id: modest, key-sha256: %s}, {id: hog, key-sha256: %s}]}\n",
		gatewaytest.HashOf("modest"), gatewaytest.HashOf("hog")))
	modest, hog := []string{"Authorization", "Bearer modest"}, []string{"Authorization", "Bearer hog"}
	made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, modest...).Succeeds(t).Body)
	var last string
	for range 12 {
		last = decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"`+strings.Repeat("x", 120_000)+`"}`, hog...).Succeeds(t).Body).ID
	}
	r.Do("GET", responsesPath+"/"+made.ID, "", modest...).Succeeds(t)
	r.Do("GET", responsesPath+"/"+last, "", hog...).Succeeds(t)
}

// Asking for what is kept counts in the limits of key, tenant and service type, whether or
// not it is there.
func TestRequestsForKeptResponsesAreLimited(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	secured := func(limits string) string {
		return fmt.Sprintf("security: {enabled: true, %s}\n", fmt.Sprintf(limits, gatewaytest.HashOf("key")))
	}
	for name, test := range map[string]struct {
		yaml, code string
		perMinute  int
	}{
		"of the key":     {secured("keys: [{id: k, key-sha256: %s, limits: {requests-per-minute: 6}}]"), "key_rate_limited", 6},
		"of the tenant":  {secured("keys: [{id: k, tenant: t, key-sha256: %s}], tenants: [{name: t, limits: {requests-per-minute: 6}}]"), "key_rate_limited", 6},
		"of the service": {"", "rate_limit_exceeded", 60},
	} {
		for _, request := range keptRequests {
			t.Run(name+", "+request.method+request.path, func(t *testing.T) {
				t.Parallel()
				policy := gatewaytest.NoBreakerNoChecks
				if test.yaml == "" {
					policy += ", rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}"
				}
				b := gatewaytest.StartBackend(t)
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, gatewaytest.Instance("m", b.URL()))+test.yaml)
				bearer := []string{"Authorization", "Bearer key"}
				made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, bearer...).Succeeds(t).Body)
				path := responsesPath + "/" + made.ID + request.path
				first := r.Do(request.method, path, "", bearer...).Succeeds(t)
				if got := first.Header.Get("X-Ratelimit-Remaining-Requests"); got != fmt.Sprint(test.perMinute-2) || first.Header.Get("X-Ratelimit-Limit-Requests") != fmt.Sprint(test.perMinute) {
					t.Errorf("%v", first.Header)
				}
				for range test.perMinute - 2 {
					if got := r.Do(request.method, responsesPath+"/resp_none"+request.path, "", bearer...); got.Status != 404 {
						t.Errorf("an unknown one: %d %s", got.Status, got.Body)
					}
				}
				refused := r.Do(request.method, path, "", bearer...)
				refused.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", test.code, "")
				if refused.Header.Get("Retry-After") == "" || refused.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
					t.Errorf("%v", refused.Header)
				}
				if got := r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, bearer...); got.Status != http.StatusTooManyRequests {
					t.Errorf("a response is made: %d", got.Status)
				}
				for range 3 { // a request without a key counts nowhere
					r.Do(request.method, path, "")
				}
			})
		}
	}
}

// TestTokensAMinuteDoNotHideKeptResponses: what a response has used does not keep its owner
// from reading it, which uses no tokens.
func TestTokensAMinuteDoNotHideKeptResponses(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+
		fmt.Sprintf("security: {enabled: true, keys: [{id: k, key-sha256: %s, limits: {tokens-per-minute: 1}}]}\n", gatewaytest.HashOf("key")))
	bearer := []string{"Authorization", "Bearer key"}
	made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, bearer...).Succeeds(t).Body)
	r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, bearer...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
	for _, request := range keptRequests {
		r.Do(request.method, responsesPath+"/"+made.ID+request.path, "", bearer...).Succeeds(t)
	}
}

// A request for what is kept runs until it has its answer, and not longer.
func TestRequestsForKeptResponsesCountAsRunning(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := startNative(t, "n")
	entered, open := make(chan struct{}, 2), make(chan struct{})
	wait := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		select {
		case <-open:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`{"id":"resp_n1","object":"response","created_at":1,"status":"completed","model":"theirs","output":[]}`))
	})
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(b))+"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("key")+", limits: {concurrent-requests: 1}}]}\n")
	bearer := []string{"Authorization", "Bearer key"}
	made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, bearer...).Succeeds(t).Body)
	b.kept.Store(&wait)
	done := make(chan int, 1)
	go func() { done <- r.Do("GET", responsesPath+"/"+made.ID, "", bearer...).Status }()
	<-entered
	r.Do("GET", responsesPath+"/"+made.ID, "", bearer...).FailsWith(t, 429, "rate_limit_exceeded", "key_rate_limited", "")
	close(open)
	if status := <-done; status != 200 {
		t.Errorf("the first: %d", status)
	}
	b.kept.Store(nil)
	for range 3 {
		r.Do("GET", responsesPath+"/"+made.ID, "", bearer...).Succeeds(t)
	}
}
