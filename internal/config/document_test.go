package config_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func loadSample(t testing.TB) *config.Document {
	t.Helper()
	content, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Source{File: "sample.yaml", Content: content})
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Document
}

func TestCloneSharesNothing(t *testing.T) {
	original, reference := loadSample(t), loadSample(t)
	copied := original.Clone()
	if !copied.Equal(original) {
		t.Fatal(cmp.Diff(original, copied, compare))
	}
	copied.Server.TrustedProxies[0] = copied.Server.TrustedProxies[1]
	copied.Services[schema.Chat].Instances[0].Name = "other"
	copied.Services[schema.Chat].Instances[1].Headers["X-Team"] = backend.Literal("red")
	delete(copied.Services, schema.TTS)
	copied.Monitoring.CustomTags["region"] = "us"
	copied.Monitoring.EnabledCategories[0]++
	copied.Quota.Windows[0]++
	copied.Security.Tokens[0].Name = "other"
	copied.Security.Keys[0].Services[0]++
	copied.Security.Keys[0].Models[0] = "other"
	if diff := cmp.Diff(reference, original, compare); diff != "" {
		t.Error(diff)
	}
}

func TestEqualSeesEveryPart(t *testing.T) {
	for name, change := range map[string]func(*config.Document){
		"server":  func(d *config.Document) { d.Server.TrustedProxies = nil },
		"limits":  func(d *config.Document) { d.Limits.MaxAttempts++ },
		"policy":  func(d *config.Document) { edit(d, func(s *config.Service) { s.RateLimit.Capacity++ }) },
		"adapter": func(d *config.Document) { edit(d, func(s *config.Service) { s.Adapter = "" }) },
		"weight":  func(d *config.Document) { edit(d, func(s *config.Service) { s.Instances[0].Weight++ }) },
		"header": func(d *config.Document) {
			edit(d, func(s *config.Service) { s.Instances[1].Headers["X-Team"] = backend.Secret{} })
		},
		"removed":  func(d *config.Document) { delete(d.Services, schema.STT) },
		"tags":     func(d *config.Document) { d.Monitoring.CustomTags["a"] = "b" },
		"windows":  func(d *config.Document) { d.Quota.Windows = nil },
		"store":    func(d *config.Document) { d.Store.Config = "x" },
		"redis":    func(d *config.Document) { d.Redis.URL = "" },
		"security": func(d *config.Document) { d.Security.Keys[0].Models = nil },
		"log":      func(d *config.Document) { d.Log.Access = true },
	} {
		changed := loadSample(t)
		change(changed)
		if changed.Equal(loadSample(t)) {
			t.Errorf("%s: the change is not seen", name)
		}
	}
}

func TestDocumentSurvivesJSON(t *testing.T) {
	want := loadSample(t)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := new(config.Document)
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	if !got.Equal(want) {
		t.Error(cmp.Diff(want, got, compare))
	}
}

func TestServiceJSONHasTheNamesOfTheAPI(t *testing.T) {
	text, err := json.Marshal(config.DefaultService())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"loadBalancer":"round_robin","adapter":"openai",` +
		`"rateLimit":{"enabled":false,"algorithm":"token_bucket","capacity":100,"refillRate":10,"clientIpEnable":false,"warmUpPeriod":60000,"scope":"service"},` +
		`"circuitBreaker":{"enabled":true,"failureThreshold":5,"recoveryTimeout":30000,"successThreshold":3},` +
		`"healthCheck":{"enabled":true,"interval":30000,"timeout":5000,"unhealthyThreshold":2,"healthyThreshold":1},"queue":{"size":0,"timeout":30000},` +
		`"timeouts":{"connect":0,"firstByte":0,"firstToken":0,"idle":0,"total":0},"aliases":null,"fallbacks":null,"fallbackOn":["unavailable","overloaded","context"],"instances":null}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

func TestAdaptersAreCheckedByTheirOwner(t *testing.T) {
	src := source("services:\n  tts:\n    adapter: ollama\n    instances:\n      - {name: a, base-url: http://h, adapter: piper}\n      - {name: b, base-url: http://h}\n")
	mustLoad(t, src)
	src.KnownAdapter = func(adapter string, serviceType schema.ServiceType) error {
		if adapter == "openai" {
			return nil
		}
		return errors.New(adapter + " cannot serve " + serviceType.String())
	}
	const want = "patchbay.yaml:3:14  services.tts.adapter: ollama cannot serve tts\n" +
		"patchbay.yaml:5:48  services.tts.instances[0].adapter: piper cannot serve tts"
	if diff := cmp.Diff(want, problemsOf(t, src)); diff != "" {
		t.Error(diff)
	}
}

func TestValidateHasNoPositions(t *testing.T) {
	document := config.Default()
	document.Limits.MaxAttempts = 0
	document.Log.AccessSample = 2
	edit(document, func(s *config.Service) { s.LoadBalancer = 99; s.RateLimit.RefillRate = 0 })
	const want = "limits.max-attempts: must be between 1 and 10, not 0\n" +
		"services.chat.load-balancer: unknown strategy\n" +
		"services.chat.rate-limit.refill-rate: must be between 1 and 1000000000, not 0\n" +
		"log.access-sample: must be between 0 and 1"
	if diff := cmp.Diff(want, document.Validate(nil).Error()); diff != "" {
		t.Error(diff)
	}
}

func TestBytes(t *testing.T) {
	for written, want := range map[string]schema.Bytes{
		"1024": 1024, "64KiB": 64 << 10, "32MiB": 32 << 20, "32MB": 32_000_000, "2 GiB": 2 << 30, "7b": 7, "3kb": 3000, "1gb": 1e9, "0": 0,
	} {
		var got schema.Bytes
		if err := got.UnmarshalText([]byte(written)); err != nil || got != want {
			t.Errorf("%s: %d, %v", written, got, err)
		}
		var again schema.Bytes
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != got {
			t.Errorf("%s does not survive being printed as %s", written, got)
		}
	}
	for _, written := range []string{"", "MiB", "-1", "1.5MiB", "1MiBi", "1 M", "1TiB", "99999999999GiB", "0x10"} {
		if err := new(schema.Bytes).UnmarshalText([]byte(written)); err == nil {
			t.Errorf("%q was accepted", written)
		}
	}
}

// A file says in which format it was written. One that says nothing is of the first.
func TestFormatOfTheFile(t *testing.T) {
	for text, want := range map[string]string{
		"log: {level: info}": "",
		"format: 1":          "",
		"format: 2":          "format: this release reads format 1, found 2; a newer format needs a newer release",
		"format: 0":          "found 0",
		"format: -1":         "found -1",
	} {
		_, err := config.Load(config.Source{File: "patchbay.yaml", Content: []byte(text)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
