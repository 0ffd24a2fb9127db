package config_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

func TestSpellingsLoadEqual(t *testing.T) {
	kebab := `
limits: {json-body: 2MiB, first-byte-timeout: 7s, max-attempts: 4}
services:
  img-edit:
    load-balancer: least-connections
    rate-limit: {refill-rate: 3, client-ip-enable: true, warm-up-period: 5s, algorithm: warm-up}
    circuit-breaker: {failure-threshold: 9}
    instances: [{name: m, base-url: "http://h", api-key: k, upstream-model: u, forward-authorization: true}]
quota: {fail-open: false, flush-interval-seconds: 3, distributed: {degrade-to-local: false}}
`
	camel := `
limits: {jsonBody: 2MiB, firstByteTimeout: 7s, maxAttempts: 4}
services:
  imgEdit:
    loadBalancer: leastConnections
    rateLimit: {refillRate: 3, clientIpEnable: true, warmUpPeriod: 5s, algorithm: warmUp}
    circuitBreaker: {failureThreshold: 9}
    instances: [{name: m, baseUrl: "http://h", apiKey: k, upstreamModel: u, forwardAuthorization: true}]
quota: {failOpen: false, flushIntervalSeconds: 3, distributed: {degradeToLocal: false}}
`
	snake := `
limits: {json_body: 2MiB, first_byte_timeout: 7s, max_attempts: 4}
services:
  IMG_EDIT:
    load_balancer: LEAST_CONNECTIONS
    rate_limit: {refill_rate: 3, client_ip_enable: true, warm_up_period: 5s, algorithm: warm_up}
    circuit_breaker: {failure_threshold: 9}
    instances: [{name: m, base_url: "http://h", api_key: k, upstream_model: u, forward_authorization: true}]
quota: {fail_open: false, flush_interval_seconds: 3, distributed: {degrade_to_local: false}}
`
	dotted := `
limits.json-body: 2MiB
patchbay.limits.firstByteTimeout: 7s
limits.max-attempts: 4
services.imgEdit.load-balancer: least-connections
services.img-edit.rate-limit: {refill-rate: 3, client-ip-enable: true, warm-up-period: 5s, algorithm: warm-up}
services.img-edit.circuit-breaker.failure-threshold: 9
services.img-edit.instances[0].name: m
services.img-edit.instances[0].base-url: http://h
services.img-edit.instances[0].api-key: k
services.img-edit.instances[0].upstream-model: u
services.img-edit.instances[0].forward-authorization: true
quota: {fail-open: false, flush-interval-seconds: 3}
quota.distributed.degrade-to-local: false
`
	want := mustLoad(t, source(kebab))
	if cmp.Equal(want, config.Default(), compare) {
		t.Fatal("the document says nothing")
	}
	wrapped := "patchbay:" + strings.ReplaceAll(kebab, "\n", "\n  ")
	for name, text := range map[string]string{"camel": camel, "snake": snake, "dotted": dotted, "wrapped": wrapped} {
		if diff := cmp.Diff(want, mustLoad(t, source(text)), compare); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, test := range []struct{ name, yaml, want string }{
		{"syntax", "server:\n  listen: [a\nlog: {}\n", "patchbay.yaml:2:11  not valid YAML: did not find expected ',' or ']'\n      listen: [a\n              ^"},
		{"syntax, found by the scanner", "log:\n  level: a: b\n", "patchbay.yaml:2:11  not valid YAML: mapping values are not allowed in this context\n      level: a: b\n              ^"},
		{"syntax, first line", "}", "patchbay.yaml:1:1  not valid YAML: did not find expected node content\n    }\n    ^"},
		{"root is a list", "[1]", "patchbay.yaml:1:1  want a mapping, found a list"},
		{"two documents", "log: {level: info}\n---\nlog: {}\n", "patchbay.yaml:2:1  a second document begins here; a configuration is one document"},
		{"unknown key", "quota:\n  enabeld: true\n", `patchbay.yaml:2:3  quota.enabeld: unknown key "enabeld" (did you mean "enabled"?)`},
		{"key like nothing", "log: {zzzzzzzzz: 1}", `patchbay.yaml:1:7  log.zzzzzzzzz: unknown key "zzzzzzzzz" (known: level, format, access, access-sample, access-fields)`},
		{"key in two lines", "log: {\"a\\nb\": 1}", `patchbay.yaml:1:7  log["a\nb"]: unknown key "a\nb" (known: level, format, access, access-sample, access-fields)`},
		{"duplicate key", "log:\n  level: info\n  level: warn\n", `patchbay.yaml:3:3  log.level: duplicate key "level", first given at line 2`},
		{"duplicate in two spellings", "server:\n  data-dir: a\n  dataDir: b\n", `patchbay.yaml:3:3  server.data-dir: duplicate key "dataDir", first given at line 2 as "data-dir"`},
		{"service type twice", "services:\n  img-gen: {}\n  imgGen: {}\n", `patchbay.yaml:3:3  services.img-gen: duplicate key "imgGen", first given at line 2 as "img-gen"`},
		{"section in and out", "log: {}\npatchbay:\n  log: {}\n", `patchbay.yaml:3:3  log: duplicate key "log", first given at line 1`},
		{"patchbay twice", "patchbay: {}\nPatchbay: {}\n", `patchbay.yaml:2:1  patchbay: duplicate key "Patchbay", first given at line 1 as "patchbay"`},
		{"patchbay is no mapping", "patchbay: 7\n", "patchbay.yaml:1:11  patchbay: want a mapping, found a single value"},
		{"dotted key twice", "log: {level: info}\nlog.level: warn\n", `patchbay.yaml:2:1  log.level: duplicate key "log.level", first given at line 1`},
		{"word of an instance's key", "services: {chat: {instances: [{name: m, base-url: 'http://x', url: x}]}}", `patchbay.yaml:1:63  services.chat.instances[0].url: unknown key "url" (did you mean "base-url"?)`},
		{"word of a key's key", "security: {keys: [{id: a, key-sha256: " + strings.Repeat("a", 64) + ", key: x}]}", `patchbay.yaml:1:105  security.keys[0].key: unknown key "key" (did you mean "key-sha256"?)`},
		{"unknown dotted key", "log.leval: warn\n", `patchbay.yaml:1:1  ["log.leval"]: unknown key "leval" (did you mean "level"?)`},
		{"key is a list", "? [a, b]\n: 1\n", "patchbay.yaml:1:3  a key must be a single word"},
		{"text for a switch", "quota: {enabled: 1}", `patchbay.yaml:1:18  quota.enabled: want true or false, found "1"`},
		{"fraction for a count", "limits: {max-attempts: 1.5}", `patchbay.yaml:1:24  limits.max-attempts: want a whole number, found "1.5"`},
		{"overflow", "limits: {max-attempts: 99999999999999999999}", `patchbay.yaml:1:24  limits.max-attempts: "99999999999999999999" is too large`},
		{"list for text", "server: {data-dir: [a]}", "patchbay.yaml:1:20  server.data-dir: want a single value, found a list"},
		{"text for a list", "quota: {windows: DAY}", "patchbay.yaml:1:18  quota.windows: want a list, found a single value"},
		{"mapping for a list", "services: {chat: {instances: {name: a}}}", "patchbay.yaml:1:30  services.chat.instances: want a list, found a mapping"},
		{"empty list entry", "quota:\n  windows:\n    -\n", "patchbay.yaml:3:6  quota.windows[0]: is empty"},
		{"foreign tag", "log: {level: !secret x}", `patchbay.yaml:1:14  log.level: has the YAML tag "!secret", which means nothing here`},
		{"weight inf", "services: {chat: {instances: [{name: a, base-url: 'http://h', weight: .inf}]}}", `patchbay.yaml:1:71  services.chat.instances[0].weight: want a number, found ".inf"`},
		{"weight NaN by another name", "services: {chat: {instances: [{name: a, base-url: 'http://h', weight: NaN}]}}", `patchbay.yaml:1:71  services.chat.instances[0].weight: want a number, found "NaN"`},
		{"same instance twice", "services:\n  stt:\n    instances:\n      - {name: a, base-url: http://h}\n      - {name: a, base-url: http://h}\n", "patchbay.yaml:5:9  services.stt.instances[1]: has the same name and base-url as instances[0]"},
		{"window twice", "quota: {windows: [DAY, HOUR, day]}", "patchbay.yaml:1:30  quota.windows[2]: DAY is listed twice"},
		{"same address twice", "server: {listen: ['127.0.0.1:80', '127.0.0.1:80']}", "patchbay.yaml:1:35  server.listen[1]: is the same address as listen[0]"},
		{"same address for management", "server: {listen: '127.0.0.1:80', management-listen: '127.0.0.1:80'}", "patchbay.yaml:1:53  server.management-listen: is the same address as listen"},
		{"socket without a directory", "server: {listen: 'unix:/nowhere/x.sock'}", "patchbay.yaml:1:18  server.listen: the directory /nowhere does not exist; create it, and let the gateway write to it"},
		{"socket with a relative path", "server: {listen: 'unix:x.sock'}", "patchbay.yaml:1:18  server.listen: want an absolute path, such as unix:/run/patchbay/gateway.sock"},
		{"port name", "server: {listen: ':http'}", `patchbay.yaml:1:18  server.listen: the port must be a number from 0 to 65535, found "http"`},
		{"empty data dir", "server: {data-dir: ''}", "patchbay.yaml:1:20  server.data-dir: must not be empty"},
		{"empty adapter", "services: {chat: {adapter: ''}}", "patchbay.yaml:1:28  services.chat.adapter: must not be empty"},
		{"redis elsewhere", "redis: {url: 'http://u:p@h'}", "patchbay.yaml:1:14  redis.url: must begin with redis:// or rediss:// (with +sentinel or +cluster where there are several: redis+sentinel://host1:26379,host2:26379/master-name)"},
		{"second value under unknown key", "lgo: {a: '${NOPE}'}", "patchbay.yaml:1:1  lgo: unknown key \"lgo\" (did you mean \"log\"?)\npatchbay.yaml:1:10  lgo.a: variable NOPE is not set and has no default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, problemsOf(t, source(test.yaml))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLimitsHaveRanges(t *testing.T) {
	good := []string{
		"limits: {max-attempts: 1}", "limits: {max-attempts: 10}", "limits: {json-body: 1KiB}", "limits: {connect-timeout: 1}",
		"limits: {uploads: 0}", "limits: {uploads: 384MiB}", "limits: {multipart-body: 2GiB}", "limits: {multipart-body: 1MiB, uploads: 1536KiB}",
		"server: {listen: ':0'}", "server: {listen: '[::1]:8080'}", "server: {shutdown-grace: 0}", "limits: {json-body: 1024}",
		"quota: {windows: []}", "quota: {distributed: {timeout: 0}}", "quota: {distributed: {timeout: 900us}}", "quota: {distributed: {timeout: 0.5ms}}",
	}
	for _, text := range good {
		mustLoad(t, source(text))
	}
	bad := []string{
		"limits: {max-attempts: 0}", "limits: {max-attempts: 11}", "limits: {json-body: 1023}", "limits: {multipart-body: 1kB}",
		"limits: {uploads: 383MiB}", "limits: {uploads: 1}", "limits: {multipart-body: 1GiB, uploads: 1GiB}",
		"limits: {connect-timeout: 0}", "limits: {first-byte-timeout: 0s}", "limits: {idle-timeout: 0}",
		"limits: {idle-timeout: -1s}", "limits: {json-body: 9999999999GiB}", "limits: {json-body: 1.5MiB}",
		"server: {listen: '127.0.0.1:65536'}", "server: {listen: 'a b:1'}", "server: {listen: '8080'}",
	}
	for _, text := range bad {
		if _, err := config.Load(source(text)); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestScalarsAreReadByTheirText(t *testing.T) {
	got := mustLoad(t, source(`
server: {trusted-proxies: [10.1.2.3/8, "2001:db8::1"]}
limits: {max-attempts: "3", json-body: 64 KiB}
quota: {enabled: "yes", windows: ["minute"], distributed: {timeout: 0}}
services:
  rerank:
    load-balancer: RANDOM
    instances: [{name: 7, base-url: http://h, api-key: 1.50, weight: "2"}, {name: true, base-url: http://h, weight: 0}]
monitoring: {custom-tags: {Zone_A: 1e3, gone: null}}
`))
	rerank := got.Services[schema.Rerank]
	if rerank.LoadBalancer != balance.Random {
		t.Errorf("strategy %v", rerank.LoadBalancer)
	}
	first, second := rerank.Instances[0], rerank.Instances[1]
	if first.Name != "7" || first.APIKey.Reveal() != "1.50" || first.Weight != 2 || !first.Enabled {
		t.Errorf("first instance %+v", first)
	}
	if second.Name != "true" || second.Weight != 0 {
		t.Errorf("second instance %+v", second)
	}
	if got.Limits.MaxAttempts != 3 || got.Limits.JSONBody != 64*schema.KiB || !got.Quota.Enabled {
		t.Errorf("limits %+v, quota %+v", got.Limits, got.Quota)
	}
	if got.Quota.Distributed.Timeout.Std() != time.Millisecond {
		t.Errorf("timeout %v is not clamped", got.Quota.Distributed.Timeout)
	}
	if diff := cmp.Diff(map[string]string{"Zone_A": "1e3"}, got.Monitoring.CustomTags); diff != "" {
		t.Error(diff)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}
	if diff := cmp.Diff(want, got.Server.TrustedProxies, compare); diff != "" {
		t.Error(diff)
	}
}

func TestWordsMayBeginWithColons(t *testing.T) {
	got := mustLoad(t, source("services: {chat: {instances: [{name: \"a ::1 b\", base-url: http://h, api-key: ::f}]}}\nlog: {level: info}"))
	instance := got.Services[schema.Chat].Instances[0]
	if instance.Name != "a ::1 b" || instance.APIKey.Reveal() != "::f" {
		t.Errorf("instance %+v", instance)
	}
	want := `patchbay.yaml:1:28  server.trusted-proxies[0]: want an address range such as 10.0.0.0/8, found "::1/999"` + "\n" +
		`patchbay.yaml:1:37  server.trusted-proxies[1]: want an address range such as 10.0.0.0/8, found "x"`
	if diff := cmp.Diff(want, problemsOf(t, source("server: {trusted-proxies: [::1/999, x]}"))); diff != "" {
		t.Error(diff)
	}
}

func TestARateLimitThatIsGivenIsOn(t *testing.T) {
	for text, want := range map[string]bool{
		"{}":                                 false,
		"{rate-limit: }":                     false,
		"{rate-limit: {}}":                   true,
		"{rate-limit: {capacity: 5}}":        true,
		"{rate-limit: {enabled: false}}":     false,
		"{rate-limit: {enabled: true}}":      true,
		"{rate-limit: {algorithm: warm-up}}": true,
		"{rateLimit: {Algorithm: LeakyBucket, enabled: off}}": false,
	} {
		got := mustLoad(t, source("services: {tts: "+text+"}")).Services[schema.TTS].RateLimit.Enabled
		if got != want {
			t.Errorf("%s: enabled is %v", text, got)
		}
	}
	limit := mustLoad(t, source("services: {tts: {rate-limit: {}}}")).Services[schema.TTS].RateLimit
	if limit != (ratelimit.Settings{Enabled: true, Capacity: 100, RefillRate: 10, WarmUpPeriod: seconds(60)}) {
		t.Errorf("limit %+v", limit)
	}
}

func TestAliasesAndMerges(t *testing.T) {
	got := mustLoad(t, source(`
services:
  chat:
    rate-limit: &limit {capacity: 8, refill-rate: 2}
    instances:
      - &node {name: a, base-url: http://h, weight: &w 3}
      - {<<: *node, name: b}
      - {name: c, <<: [{weight: 5}, *node]}
  tts: {rate-limit: *limit, instances: [{name: t, base-url: http://h, weight: *w}]}
`))
	chat, tts := got.Services[schema.Chat], got.Services[schema.TTS]
	if chat.RateLimit != tts.RateLimit || tts.RateLimit.Capacity != 8 {
		t.Errorf("rate limit of the alias: %+v", tts.RateLimit)
	}
	if tts.Instances[0].Weight != 3 {
		t.Errorf("weight of the alias: %v", tts.Instances[0].Weight)
	}
	b, c := chat.Instances[1], chat.Instances[2]
	if b.Name != "b" || b.BaseURL != "http://h" || b.Weight != 3 {
		t.Errorf("merged instance %+v", b)
	}
	if c.Name != "c" || c.BaseURL != "http://h" || c.Weight != 5 {
		t.Errorf("instance merged from a list %+v", c)
	}
}

func TestBadAliases(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("log:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		level := string(rune('0' + i))
		next := string(rune('1' + i))
		bomb.WriteString("  a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+level+", ", 10), ", ") + "]\n")
	}
	for _, test := range []struct{ name, yaml, want string }{
		{"cycle", "services:\n  chat: &c\n    instances: [*c]\n", `patchbay.yaml:3:17  services.chat.instances[0]: alias "c" stands inside the value that it names`},
		{"merge of text", "log: {<<: info}", "patchbay.yaml:1:7  << must name a mapping or a list of mappings"},
		{"unknown anchor", "server: {}\nlog: *nope", "patchbay.yaml:2:6  not valid YAML: unknown anchor 'nope' referenced"},
		{"bomb", bomb.String(), "aliases unfold to too many values"},
		{"depth", "log: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "is nested too deeply"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := problemsOf(t, source(test.yaml)); !strings.Contains(got, test.want) {
				t.Errorf("got %.2000s", got)
			}
		})
	}
}
