package config_test

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/policy"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

var update = flag.Bool("update", false, "rewrite golden files")

func seconds(n float64) schema.Duration { return schema.Duration(n * float64(time.Second)) }

func source(yaml string) config.Source {
	return config.Source{File: "patchbay.yaml", Content: []byte(yaml)}
}

// mustLoad returns the document of a configuration that must be good.
func mustLoad(t *testing.T, src config.Source) *config.Document {
	t.Helper()
	loaded, err := config.Load(src)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return loaded.Document
}

// problemsOf returns the lines of a configuration that must be bad.
func problemsOf(t *testing.T, src config.Source) string {
	t.Helper()
	loaded, err := config.Load(src)
	if err == nil {
		t.Fatalf("load accepted the configuration: %+v", loaded.Document)
	}
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("error is a %T, want Problems", err)
	}
	return err.Error()
}

var compare = cmp.Options{cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}

func TestNothingGivenIsTheDefaults(t *testing.T) {
	for name, content := range map[string][]byte{
		"no file":      nil,
		"empty file":   {},
		"comment only": []byte("# nothing\n"),
		"null":         []byte("---\n"),
		"patchbay":     []byte("patchbay:\n"),
		"null values":  []byte("server:\nservices:\n  chat:\n  tts: {rate-limit: , instances: ~}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			got := mustLoad(t, config.Source{File: "patchbay.yaml", Content: content})
			if diff := cmp.Diff(config.Default(), got, compare); diff != "" {
				t.Error(diff)
			}
			if len(got.Services) != schema.ServiceTypeCount {
				t.Errorf("%d service types are configured", len(got.Services))
			}
		})
	}
}

func TestSampleLoads(t *testing.T) {
	content, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := mustLoad(t, config.Source{File: "sample.yaml", Content: content})

	want := config.Default()
	want.Server = config.Server{
		Listen: []string{"127.0.0.1:9090"}, DataDir: "/var/lib/patchbay", ShutdownDelay: seconds(5), ShutdownGrace: seconds(45),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"),
			netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::/64"),
		},
		CORSOrigins: []string{"https://app.example", "http://localhost:3000"}, UnknownModel: 503,
	}
	want.Limits.Limits = policy.Limits{
		JSONBody: 16 * schema.MiB, MultipartBody: 64_000_000, ConnectTimeout: seconds(2),
		FirstByteTimeout: seconds(90), IdleTimeout: seconds(90), MaxAttempts: 3, MaxInFlight: 10_000,
	}
	want.Services[schema.Chat] = config.Service{
		LoadBalancer: balance.LeastConnections, FallbackOn: naming.Reasons(),
		Adapter: "ollama",
		RateLimit: ratelimit.Settings{
			Enabled: true, Algorithm: ratelimit.SlidingWindow, Capacity: 20, RefillRate: 4, ClientIPEnable: true,
			WarmUpPeriod: seconds(60),
		},
		CircuitBreaker: breaker.Settings{Enabled: true, FailureThreshold: 2, RecoveryTimeout: seconds(1.5), SuccessThreshold: 1},
		HealthCheck: backend.HealthSettings{
			Enabled: true, Interval: seconds(10), Timeout: seconds(1), UnhealthyThreshold: 3, HealthyThreshold: 2,
		},
		Queue: queue.DefaultSettings(),
		Instances: []backend.Settings{
			{Name: "llama3:8b", BaseURL: "http://10.1.0.5:11434", Weight: 2.5, Enabled: true, APIKey: backend.Reference("${LLAMA_KEY:}")},
			{
				Name: "big", BaseURL: "https://llm.example/api", Adapter: "openai", Path: "/v1/chat/completions", Weight: 1,
				UpstreamModel: "vendor/big-70b", ForwardAuthorization: true, Headers: map[string]backend.Secret{"X-Team": backend.Literal("blue")},
			},
		},
	}
	image := config.DefaultService()
	image.LoadBalancer = balance.IPHash
	image.RateLimit.Capacity = 7
	want.Services[schema.ImgGen] = image
	want.Monitoring.Settings = metrics.Settings{
		Enabled: true, Prefix: "gateway", CollectionInterval: metrics.Interval(time.Minute),
		EnabledCategories: []metrics.Category{metrics.CategoryRequest}, CustomTags: map[string]string{"region": "eu_1"},
		Sampling:    metrics.Sampling{Enabled: true, Rate: 0.25},
		Performance: metrics.Performance{BatchSize: 10, FlushInterval: metrics.Interval(5 * time.Second)},
		Calls:       metrics.DefaultSettings().Calls,
		History:     metrics.DefaultSettings().History,
	}
	want.Quota = quota.Settings{
		Enabled: true, FlushIntervalSeconds: 5, Windows: []quota.Window{quota.Day, quota.Month},
		Retention: quota.Retention{
			Minute: quota.Period{Amount: 12, Unit: quota.Hours}, Hour: quota.Period{Amount: 2, Unit: quota.Days},
			Day: quota.Period{Amount: 40, Unit: quota.Days}, Month: quota.Period{Amount: 13, Unit: quota.Months},
		},
		Distributed: quota.Distributed{Enabled: true, KeyPrefix: "team:quota", Timeout: quota.Timeout(5 * time.Second)},
	}
	want.Store.URL = "postgres://ledger@db/patchbay"
	want.Redis.URL = "rediss://cache:6380/1"
	want.Security.Settings = access.Settings{
		Enabled: true, Session: access.DefaultSettings().Session,
		Tokens: []access.Token{{
			Name: "ops", Role: access.Operator,
			TokenSHA256: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
		}},
		Keys: []access.Key{{
			ID: "team-a", Tenant: "acme", KeySHA256: "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9",
			Terms: access.Terms{
				Services: []schema.ServiceType{schema.Chat, schema.ImgGen}, Models: []string{"big"},
				ExpiresAt: "2031-05-01T00:00:00Z",
			},
		}},
	}
	want.Log = logs.Settings{Level: logs.LevelWarn, Format: logs.FormatJSON, AccessSample: 1}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Error(diff)
	}
}

func TestAllProblemsOfABadFileAreReportedAtOnce(t *testing.T) {
	content, err := os.ReadFile("testdata/bad.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := func(adapter string, _ schema.ServiceType) error {
		if adapter != "openai" {
			return fmt.Errorf("unknown adapter %q (known: openai)", adapter)
		}
		return nil
	}
	got := problemsOf(t, config.Source{File: "bad.yaml", Content: content, KnownAdapter: known}) + "\n"
	golden := filepath.Join("testdata", "bad.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	for _, secret := range []string{"hunter2", "admin", "ABCDEF"} {
		if strings.Contains(got, secret) {
			t.Errorf("the problems show %q", secret)
		}
	}
}
