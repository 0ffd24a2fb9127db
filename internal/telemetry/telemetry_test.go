package telemetry

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSettingsRules(t *testing.T) {
	t.Parallel()
	var broken []string
	collect := func(path, _ string) { broken = append(broken, path) }
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
		if got := traceSignal.address(given); got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
}

// The variables of the environment that other exporters of OTLP read, too.
func TestVariablesOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=1, b=two%20words,broken")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "/nowhere/ca.pem")
	for got, want := range map[string]string{
		traceSignal.address(""): "http://all:4318/v1/traces", traceSignal.address("http://set"): "http://set/v1/traces",
		metricSignal.address(""): "http://metrics/otlp",
	} {
		if got != want {
			t.Errorf("address %s, want %s", got, want)
		}
	}
	if got := traceSignal.headers(Settings{}); !maps.Equal(got, map[string]string{"a": "1", "b": "two words"}) {
		t.Errorf("headers %v", got)
	}
	if got := traceSignal.headers(Settings{Headers: map[string]string{"c": "3"}}); !maps.Equal(got, map[string]string{"c": "3"}) {
		t.Errorf("headers %v beside those of the settings", got)
	}
	if _, err := Open(Settings{}, "test"); err == nil || !strings.Contains(err.Error(), "/nowhere/ca.pem") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}
