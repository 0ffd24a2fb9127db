package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

const twoInstances = `
services:
  chat:
    load-balancer: ip-hash
    rate-limit: {enabled: false}
    instances:
      - {name: a, base-url: http://a}
      - {name: b, base-url: http://b}
monitoring: {custom-tags: {Region: eu}}
`

func TestCommandLineWinsOverEnvironmentOverFileOverDefaults(t *testing.T) {
	src := source("limits: {max-attempts: 3}\n")
	attempts := func() int { return mustLoad(t, src).Limits.MaxAttempts }
	if got := attempts(); got != 3 {
		t.Errorf("file: %d", got)
	}
	src.Env = []string{"PATCHBAY_LIMITS_MAX_ATTEMPTS=4"}
	if got := attempts(); got != 4 {
		t.Errorf("environment: %d", got)
	}
	src.Set = []string{"limits.max-attempts=5", "limits.maxAttempts=6"}
	if got := attempts(); got != 6 {
		t.Errorf("command line: %d", got)
	}
	src.Set = []string{"limits.max-attempts=null"}
	if got := attempts(); got != 2 {
		t.Errorf("null on the command line: %d", got)
	}
}

func TestSetReachesEverySetting(t *testing.T) {
	for _, test := range []struct {
		set  string
		want func(*config.Document)
	}{
		{"services.chat.load-balancer=random", func(d *config.Document) { edit(d, func(s *config.Service) { s.LoadBalancer = balance.Random }) }},
		{"patchbay.services.chat.loadBalancer=random", func(d *config.Document) { edit(d, func(s *config.Service) { s.LoadBalancer = balance.Random }) }},
		{"services.chat.instances[1].weight=3", func(d *config.Document) { edit(d, func(s *config.Service) { s.Instances[1].Weight = 3 }) }},
		{"services.chat.instances.0.weight=3", func(d *config.Document) { edit(d, func(s *config.Service) { s.Instances[0].Weight = 3 }) }},
		{"services.chat.instances[0].api-key=sk #1: x", func(d *config.Document) {
			edit(d, func(s *config.Service) { s.Instances[0].APIKey = backend.Literal("sk #1: x") })
		}},
		{`services.chat.instances[0].api-key="quo\u0074ed"`, func(d *config.Document) {
			edit(d, func(s *config.Service) { s.Instances[0].APIKey = backend.Literal("quoted") })
		}},
		{"services.chat.instances[0].api-key=${HOME}", func(d *config.Document) {
			edit(d, func(s *config.Service) { s.Instances[0].APIKey = backend.Literal("${HOME}") })
		}},
		{`services.chat.instances[0].headers["X-a.b"]=v`, func(d *config.Document) {
			edit(d, func(s *config.Service) {
				s.Instances[0].Headers = map[string]backend.Secret{"X-a.b": backend.Literal("v")}
			})
		}},
		{"services.chat.rate-limit.capacity=9", func(d *config.Document) { edit(d, func(s *config.Service) { s.RateLimit.Capacity = 9 }) }},
		{"services.tts.rate-limit.capacity=9", func(d *config.Document) {
			tts := d.Services[schema.TTS]
			tts.RateLimit.Enabled, tts.RateLimit.Capacity = true, 9
			d.Services[schema.TTS] = tts
		}},
		{"quota.windows=[DAY]", func(d *config.Document) { d.Quota.Windows = []quota.Window{quota.Day} }},
		{"quota.windows=hour,DAY", func(d *config.Document) { d.Quota.Windows = []quota.Window{quota.Hour, quota.Day} }},
		{"quota.windows=", func(d *config.Document) { d.Quota.Windows = nil }},
		{"monitoring.custom-tags.zone=1", func(d *config.Document) { d.Monitoring.CustomTags["zone"] = "1" }},
		{"monitoring.custom-tags={a: b}", func(d *config.Document) { d.Monitoring.CustomTags = map[string]string{"a": "b"} }},
		{"server.listen=[::1]:80", func(d *config.Document) { d.Server.Listen = []string{"[::1]:80"} }},
		{"server.listen=[::1]:80,[::1]:81", func(d *config.Document) { d.Server.Listen = []string{"[::1]:80", "[::1]:81"} }},
		{"server.listen=['127.0.0.1:80', '127.0.0.1:81']", func(d *config.Document) { d.Server.Listen = []string{"127.0.0.1:80", "127.0.0.1:81"} }},
	} {
		want := mustLoad(t, source(twoInstances))
		test.want(want)
		src := source(twoInstances)
		src.Set = []string{test.set}
		if got := mustLoad(t, src); !got.Equal(want) {
			t.Errorf("--set %s: %s", test.set, cmp.Diff(want, got, compare))
		}
	}
}

func edit(d *config.Document, change func(*config.Service)) {
	chat := d.Services[schema.Chat]
	change(&chat)
	d.Services[schema.Chat] = chat
}

func TestSetMakesInstances(t *testing.T) {
	src := config.Source{Set: []string{
		`services.chat.instances=[{name: m, base-url: "http://127.0.0.1:9"}]`,
		"services.chat.instances[1].name=n",
		"services.chat.instances[1].base-url=http://127.0.0.1:10",
	}}
	instances := mustLoad(t, src).Services[schema.Chat].Instances
	if len(instances) != 2 || instances[0].ID() != "m@http://127.0.0.1:9" || instances[1].ID() != "n@http://127.0.0.1:10" {
		t.Fatalf("instances %+v", instances)
	}
	if instances[1].Weight != 1 || !instances[1].Enabled {
		t.Errorf("defaults are missing: %+v", instances[1])
	}
}

func TestSetProblemsNameTheArgument(t *testing.T) {
	for set, want := range map[string]string{
		"quota.enabeld=true":                `--set quota.enabeld  unknown key "enabeld" (did you mean "enabled"?)`,
		"quota.enabled=maybe":               `--set quota.enabled  quota.enabled: want true or false, found "maybe"`,
		"quota":                             "--set  argument 1: want key=value",
		"=1":                                "--set   the key is empty",
		"quota.=1":                          "--set quota.  the key ends with a dot",
		"quota..enabled=1":                  "--set quota..enabled  the key has an empty part",
		"quota[=1":                          "--set quota[  the key has a [ without its ]",
		"quota=on":                          "--set quota  quota: want a mapping, found a single value",
		"quota.enabled.deep=1":              `--set quota.enabled.deep  quota.enabled is a single value and has no "deep" inside`,
		"services.chap.adapter=x":           `--set services.chap.adapter  unknown service type "chap" (did you mean "chat"?)`,
		"services.chat.instances.a.name=x":  `--set services.chat.instances.a.name  services.chat.instances is a list: want a position such as 0, found "a"`,
		"services.chat.instances[5].name=x": "--set services.chat.instances[5].name  services.chat.instances[5].name: the list has 2 entries: position 5 would leave a gap",
		"services.chat.instances=[{":        "--set services.chat.instances  services.chat.instances: is not valid YAML",
		"services.chat.instances=[{nam: x}]": "--set services.chat.instances  services.chat.instances[0].nam: unknown key \"nam\" (did you mean \"name\"?)\n" +
			"--set services.chat.instances  services.chat.instances[0].name: is required\n" +
			"--set services.chat.instances  services.chat.instances[0].base-url: is required",
		"services.chat.instances[0].weight=-2": "--set services.chat.instances[0].weight  services.chat.instances[0].weight: must be between 0 (no traffic) and 1000000, not -2",
	} {
		src := source(twoInstances)
		src.Set = []string{set}
		if diff := cmp.Diff(want, problemsOf(t, src)); diff != "" {
			t.Errorf("--set %s: %s", set, diff)
		}
	}
}

func TestEnvironmentReachesEverySetting(t *testing.T) {
	src := source(twoInstances)
	src.Env = []string{
		"PATCHBAY_QUOTA_ENABLED=true",
		"PATCHBAY_QUOTA_FAIL_OPEN=false",
		"PATCHBAY_QUOTA_WINDOWS=DAY, month",
		"PATCHBAY_SERVICES_CHAT_LOAD_BALANCER=random",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_0_BASE_URL=http://other",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_2_NAME=c",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_2_BASE_URL=http://c",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_2_API_KEY=[not a list",
		"PATCHBAY_SERVICES_IMG_GEN_ADAPTER=x",
		"PATCHBAY_SERVICES_IMG_EDIT_RATE_LIMIT_CLIENT_IP_ENABLE=on",
		`PATCHBAY_SERVICES_TTS_INSTANCES=[{name: t, base-url: "http://t"}]`,
		"PATCHBAY_SERVICES_TTS_INSTANCES_0_WEIGHT=4",
		"PATCHBAY_MONITORING_CUSTOM_TAGS_REGION=us",
		"PATCHBAY_MONITORING_CUSTOM_TAGS_DATA_CENTER=d1",
		"PATCHBAY_LOG_LEVEL=",
		"PATCHBAY_CONFIG=/etc/patchbay.yaml",
		"HOME=/root",
	}
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := mustLoad(t, source(`
quota: {enabled: true, fail-open: false, windows: [DAY, MONTH]}
services:
  chat:
    load-balancer: random
    rate-limit: {enabled: false}
    instances:
      - {name: a, base-url: http://other}
      - {name: b, base-url: http://b}
      - {name: c, base-url: http://c}
  img-gen: {adapter: x}
  img-edit: {rate-limit: {client-ip-enable: true}}
  tts: {instances: [{name: t, base-url: http://t, weight: 4}]}
monitoring: {custom-tags: {Region: us, data_center: d1}}
`))
	edit(want, func(s *config.Service) {
		s.Instances[2].APIKey = backend.Reference("${PATCHBAY_SERVICES_CHAT_INSTANCES_2_API_KEY}")
	})
	if key, err := want.Services[schema.Chat].Instances[2].Resolved(loaded.Document.Resolve); err != nil || key.APIKey.Reveal() != "[not a list" {
		t.Errorf("the key is %q, %v", key.APIKey.Reveal(), err)
	}
	if diff := cmp.Diff(want, loaded.Document, compare); diff != "" {
		t.Error(diff)
	}
	if len(loaded.Warnings) != 0 {
		t.Errorf("warnings %q", loaded.Warnings)
	}
}

func TestForeignVariablesAreWarnings(t *testing.T) {
	loaded, err := config.Load(config.Source{Env: []string{
		"PATCHBAY_SERVICE_HOST=10.0.0.1", "PATCHBAY_PORT_8080_TCP=tcp://10.0.0.1:8080", "PATCHBAY_QUOTA_ENABLE=true", "PATCHBAY_=x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(loaded.Warnings, "\n")
	for _, want := range []string{
		"environment variable PATCHBAY_SERVICE_HOST names no setting",
		"environment variable PATCHBAY_PORT_8080_TCP names no setting",
		"environment variable PATCHBAY_QUOTA_ENABLE names no setting (nearest: PATCHBAY_QUOTA_ENABLED)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if !loaded.Document.Equal(config.Default()) {
		t.Error("foreign variables changed the document")
	}
}

func TestEnvironmentProblemsNameTheVariable(t *testing.T) {
	for env, want := range map[string]string{
		"PATCHBAY_QUOTA_ENABLED=maybe":               `environment PATCHBAY_QUOTA_ENABLED  quota.enabled: want true or false, found "maybe"`,
		"PATCHBAY_LIMITS_MAX_ATTEMPTS=99":            "environment PATCHBAY_LIMITS_MAX_ATTEMPTS  limits.max-attempts: must be between 1 and 10, not 99",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_9_NAME=x":  "environment PATCHBAY_SERVICES_CHAT_INSTANCES_9_NAME  services.chat.instances[9].name: the list has 2 entries: position 9 would leave a gap",
		"PATCHBAY_SERVICES_CHAT_INSTANCES_2_NAME=x":  "environment PATCHBAY_SERVICES_CHAT_INSTANCES_2_NAME  services.chat.instances[2].base-url: is required",
		"PATCHBAY_SERVICES_CHAT_LOAD_BALANCER=randm": `environment PATCHBAY_SERVICES_CHAT_LOAD_BALANCER  services.chat.load-balancer: unknown strategy "randm" (did you mean "random"?)`,
		"PATCHBAY_QUOTA_WINDOWS=DAY,WEK":             `environment PATCHBAY_QUOTA_WINDOWS  quota.windows[1]: unknown window "WEK" (known: MINUTE, HOUR, DAY, MONTH)`,
	} {
		src := source(twoInstances)
		src.Env = []string{env}
		if diff := cmp.Diff(want, problemsOf(t, src)); diff != "" {
			t.Errorf("%s: %s", env, diff)
		}
	}
	src := config.Source{Env: []string{"PATCHBAY_QUOTA_FAILOPEN=true", "PATCHBAY_QUOTA_FAIL_OPEN=false"}}
	if got := problemsOf(t, src); got != "environment PATCHBAY_QUOTA_FAIL_OPEN  quota.fail-open: is also set by PATCHBAY_QUOTA_FAILOPEN" {
		t.Errorf("two variables for one setting: %s", got)
	}
}

func TestAnOverrideReplacesAnUnsetVariable(t *testing.T) {
	src := source("server: {data-dir: '${NOPE}'}")
	src.Set = []string{"server.data-dir=/d"}
	if got := mustLoad(t, src).Server.DataDir; got != "/d" {
		t.Errorf("data dir %q", got)
	}
}

func TestAnOverrideDoesNotHideAMistakeOnItsWay(t *testing.T) {
	src := source("quota: 7\n")
	src.Set = []string{"quota.enabled=true"}
	if got := problemsOf(t, src); got != "patchbay.yaml:1:8  quota: want a mapping, found a single value" {
		t.Error(got)
	}
}

func TestOriginsOfValues(t *testing.T) {
	src := source("log:\n  level: debug\n  format: text\nserver: {data-dir: d}\n")
	src.Env = []string{"PATCHBAY_LOG_FORMAT=json"}
	src.Set = []string{"log.access=false"}
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"log.level": "patchbay.yaml:2:10", "log.format": "environment PATCHBAY_LOG_FORMAT",
		"log.access": "--set log.access", "server.data-dir": "patchbay.yaml:4:20",
	}
	if diff := cmp.Diff(want, loaded.Origins); diff != "" {
		t.Error(diff)
	}
}
