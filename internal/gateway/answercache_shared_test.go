package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func sharedCache(url, more string) string {
	return "answer-cache: {services: [chat], shared: true}\nredis: {url: \"" + url + "\"}\n" + more
}

// Gateways that share the cache find each other's answers, plain and streamed, until one of
// them removes all; a gateway with another pool finds none.
func TestGatewaysShareTheirAnswers(t *testing.T) {
	t.Parallel()
	server, b := storetest.Redis(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())) + sharedCache(server.URL, "")
	one, two := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	other := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "upstream-model: x"))+sharedCache(server.URL, ""))
	for _, body := range []string{cold("1"), strings.Replace(cold("1"), `"temperature"`, `"stream":true,"temperature"`, 1)} {
		first := cacheIs(t, one.Chat(body), "miss")
		var second gatewaytest.Reply
		gatewaytest.Eventually(t, "the other gateway has the answer", func() bool {
			second = two.Chat(body, "X-Tenant-Id", "")
			return second.Header.Get("X-Router-Cache") == "hit"
		})
		if !strings.Contains(first.Body, "choices") || second.Status != http.StatusOK || strings.Count(first.Body, "data:") != strings.Count(second.Body, "data:") {
			t.Errorf("the answers differ:\n%s\n%s", first.Body, second.Body)
		}
		cacheIs(t, other.Chat(body), "miss")
	}
	two.API(http.MethodDelete, "/api/answer-cache", "").Is(t, http.StatusOK)
	cacheIs(t, one.Chat(cold("1")), "miss")
}

// With a master key nobody who reads Redis learns what was answered.
func TestSharedAnswersAreSealed(t *testing.T) {
	t.Parallel()
	server, b := storetest.Redis(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))
	sealed := gatewaytest.Start(t, yaml+sharedCache(server.URL, "security: {master-key: \""+strings.Repeat("k", 64)+"\"}\n"))
	gatewaytest.Eventually(t, "the answer is kept", func() bool { return sealed.Chat(cold("1")).Header.Get("X-Router-Cache") == "hit" })
	plain := gatewaytest.Start(t, yaml+sharedCache(server.URL, ""))
	cacheIs(t, plain.Chat(cold("1")), "miss") // it cannot read what is there
	gatewaytest.Eventually(t, "the answer is kept", func() bool { return plain.Chat(cold("1")).Header.Get("X-Router-Cache") == "hit" })
	cacheIs(t, sealed.Chat(cold("1")), "miss") // and does not trust what is not sealed
}

// Without Redis every request is a miss, and is answered.
func TestASharedCacheThatIsAway(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+sharedCache("redis://127.0.0.1:1/0", ""))
	cacheIs(t, r.Chat(cold("1")), "miss")
	cacheIs(t, r.Chat(cold("1")), "miss")
	if reply := r.Do(http.MethodDelete, "/api/answer-cache", ""); reply.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}
