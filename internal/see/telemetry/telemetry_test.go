package telemetry

import (
	"math"
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/see/say"
)

func TestSettingsRules(t *testing.T) {
	t.Parallel()
	var broken []string
	collect := func(path string, _ say.Sentence) { broken = append(broken, path) }
	if DefaultSettings().Check(collect); broken != nil {
		t.Errorf("the defaults break rules of %v", broken)
	}
	Settings{Protocol: 9, Endpoint: "http://user:secret@h", Sample: math.NaN()}.Check(collect)
	if !slices.Equal(broken, []string{"protocol", "endpoint", "sample", "serviceName"}) {
		t.Errorf("broken rules of %v", broken)
	}
	for _, bad := range []string{"h:4318", "ftp://h", "http://", "://"} {
		broken = nil
		s := DefaultSettings()
		s.Endpoint = bad
		if s.Check(collect); len(broken) != 1 {
			t.Errorf("%q is taken for an endpoint", bad)
		}
	}
}

func TestAddressesOfInstances(t *testing.T) {
	t.Parallel()
	for instance, want := range map[string]struct {
		host string
		port int64
	}{
		"m@http://gpu1:8000":          {"gpu1", 8000},
		"m@https://api.example.com/v": {"api.example.com", 443},
		"m@http://[2001:db8::1]":      {"2001:db8::1", 80},
		"a@b@http://h":                {"h", 80},
		"m":                           {"", 0},
		"":                            {"", 0},
	} {
		if host, port := addressOf(instance); host != want.host || port != want.port {
			t.Errorf("%s: %s %d", instance, host, port)
		}
	}
}

func TestTracesURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://h:4318": "http://h:4318/v1/traces", "http://h:4318/": "http://h:4318/v1/traces", "http://h/otlp": "http://h/otlp/v1/traces",
		"http://h/v1/traces": "http://h/v1/traces",
	} {
		if got := tracesURL(given); got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
}
