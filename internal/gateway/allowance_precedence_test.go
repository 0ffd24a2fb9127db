package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A limit of a key takes the place of the default (-1: none), and that of its tenant counts
// beside it; replies show the one of which the least is left.
func TestLimitsOfKeysTenantsAndDefaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ key, tenant, defaults, want int }{
		{0, 0, 0, 0}, {0, 0, 3, 3}, {5, 0, 3, 5}, {2, 0, 3, 2}, {-1, 0, 3, 0}, {0, 4, 0, 4}, {0, 2, 3, 2}, {0, 9, 3, 3}, {7, 4, 3, 4}, {5, 9, 3, 5}, {-1, 9, 3, 9}, {-1, 0, 0, 0},
	} {
		t.Run(fmt.Sprintf("%d of the key, %d of the tenant, %d by default", test.key, test.tenant, test.defaults), func(t *testing.T) {
			t.Parallel()
			for unit, setting := range map[string]string{"Requests": "requests-per-minute", "Tokens": "tokens-per-minute"} {
				size := 1 // of one request
				if unit == "Tokens" {
					size = 1000
				}
				limit := func(n int) string {
					if n > 0 {
						n *= size
					}
					return fmt.Sprintf("limits: {%s: %d}", setting, n)
				}
				b := gatewaytest.StartBackend(t)
				r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b), "  defaults: {"+limit(test.defaults)+"}\n  tenants: [{name: acme, "+limit(test.tenant)+"}]\n", map[string]string{
					"k": ", tenant: acme, " + limit(test.key),
				}))
				answer := r.Chat(gatewaytest.With(`"max_tokens":900`), bearer("k")...).Succeeds(t)
				if test.want == 0 {
					if shown := answer.Header.Get("X-Ratelimit-Limit-" + unit); shown != "" {
						t.Errorf("a limit of %s %s", shown, unit)
					}
					continue
				}
				if got := header(t, answer, "X-Ratelimit-Limit-"+unit); got != test.want*size {
					t.Errorf("a limit of %d %s, want %d", got, unit, test.want*size)
				}
				if reset, err := time.ParseDuration(answer.Header.Get("X-Ratelimit-Reset-" + unit)); err != nil || reset <= 0 || reset > 61*time.Second {
					t.Errorf("%s are reset after %v, %v", unit, reset, err)
				}
				if unit == "Tokens" {
					continue // TestTokensOfAKeyAreReservedAndSettled uses them up
				}
				for range test.want - 1 {
					r.Chat(gatewaytest.PlainHi, bearer("k")...).Succeeds(t)
				}
				refused := r.Chat(gatewaytest.PlainHi, bearer("k")...)
				refused.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
				if header(t, refused, "X-Ratelimit-Limit-Requests") != test.want || header(t, refused, "X-Ratelimit-Remaining-Requests") != 0 {
					t.Errorf("refused with %v", refused.Header)
				}
			}
		})
	}
}

// The address of a caller is the one behind the proxies that are trusted, in either family.
func TestAddressesOfKeysBehindProxies(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b)+"server: {trusted-proxies: [127.0.0.0/8, '2001:db8:ffff::/48']}\n", "", map[string]string{
		"six": `, addresses: ["2001:db8:1::/48"]`, "four": ", addresses: [192.0.2.0/24]", "mapped": `, addresses: ["::ffff:192.0.2.0/120"]`, "own": ", addresses: [127.0.0.1]",
	}))
	for _, test := range []struct {
		key, forwarded string
		want           int
	}{
		{"six", "2001:db8:1::5", 200}, {"six", "[2001:db8:1::5]:4711", 200}, {"six", "2001:db8:2::5", 403}, {"six", "192.0.2.7", 403}, {"six", "", 403},
		{"six", "2001:db8:1::5, 2001:db8:ffff::1", 200}, {"six", "2001:db8:1::5, 203.0.113.9", 403}, {"six", "2001:DB8:1:0::5", 200},
		{"four", "192.0.2.7", 200}, {"four", "::ffff:192.0.2.7", 200}, {"four", "192.0.3.7", 403}, {"four", "192.0.2.7, 192.0.3.7", 403}, {"mapped", "192.0.2.7", 200},
		{"own", "", 200}, {"own", "192.0.2.7", 403}, {"four", "nonsense", 403},
	} {
		headers := bearer(test.key)
		if test.forwarded != "" {
			headers = append(headers, "X-Forwarded-For", test.forwarded)
		}
		if got := r.Chat(gatewaytest.PlainHi, headers...); got.Status != test.want {
			t.Errorf("%s from %q: %d, want %d", test.key, test.forwarded, got.Status, test.want)
		}
	}
	direct := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b)+"server: {trusted-proxies: [192.0.2.1]}\n", "", map[string]string{"four": ", addresses: [192.0.2.0/24]"}))
	if got := direct.Chat(gatewaytest.PlainHi, append(bearer("four"), "X-Forwarded-For", "192.0.2.7")...); got.Status != 403 {
		t.Errorf("a proxy that nobody trusts: %d", got.Status)
	}
}

// What a key is good for holds at every door of a service type, and for the models behind
// aliases; what has expired is no key.
func TestScopesOfKeysHoldAtEveryDoor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := strings.Replace(gatewaytest.PoolYAML(b), "chat: {", "chat: {aliases: {nick: m}, ", 1)
	r := gatewaytest.Start(t, keyed(yaml, "", map[string]string{
		"model": ", models: [m]", "alias": ", models: [nick]", "other": ", models: [other]", "pattern": ", models: ['m*', 'ni*']", "service": ", services: [embedding]",
		"expired": ", expires-at: '2020-01-01T00:00:00Z'", "later": ", expires-at: '2099-01-01T00:00:00Z'",
	}))
	doors := map[string]string{
		"/v1/chat/completions": `{"model":"%s","messages":[{"role":"user","content":"hi"}]}`, "/v1/messages": `{"model":"%s","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses": `{"model":"%s","input":"hi"}`, "/v1/completions": `{"model":"%s","prompt":"hi"}`,
	}
	for door, body := range doors {
		for _, test := range []struct {
			key, model string
			want       int
		}{
			{"model", "m", 200}, {"model", "nick", 200}, {"alias", "nick", 200}, {"alias", "m", 403}, {"other", "m", 403}, {"other", "nick", 403},
			{"pattern", "m", 200}, {"pattern", "nick", 200}, {"service", "m", 403}, {"expired", "m", 401}, {"later", "m", 200}, {"nobody", "m", 401},
		} {
			if got := r.Do(http.MethodPost, door, fmt.Sprintf(body, test.model), bearer(test.key)...); got.Status != test.want {
				t.Errorf("%s asks %s for %s: %d, want %d: %.200s", test.key, door, test.model, got.Status, test.want, got.Body)
			}
		}
	}
}
