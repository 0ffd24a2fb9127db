package telemetry

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

func TestSettingsRules(t *testing.T) {
	t.Parallel()
	var broken []string
	collect := func(path string, _ say.Sentence) { broken = append(broken, path) }
	if DefaultSettings().Check(collect); broken != nil {
		t.Errorf("the defaults break rules of %v", broken)
	}
	Settings{Endpoint: "http://user:secret@h", Sample: math.NaN()}.Check(collect)
	if !slices.Equal(broken, []string{"endpoint", "sample", "serviceName"}) {
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

func TestAddressesOfSignals(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://h:4318": "http://h:4318/v1/traces", "http://h:4318/": "http://h:4318/v1/traces", "http://h/otlp": "http://h/otlp/v1/traces",
		"http://h/v1/traces": "http://h/v1/traces",
	} {
		if got := (signal{path: "/v1/traces"}).address(given); got != want {
			t.Errorf("%s: %s", given, got)
		}
	}
}

// A collector that redirects gets neither traces nor metrics; the other server gets nothing of them.
func TestExportsDoNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got %s with key %q", r.URL.Path, r.Header.Get("X-Collector-Key"))
	}))
	defer other.Close()
	asked := make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("X-Collector-Key")
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer collector.Close()
	settings := DefaultSettings()
	settings.Protocol, settings.Endpoint, settings.Headers = HTTP, collector.URL, map[string]string{"X-Collector-Key": "secret"}
	exporter, err := Open(settings, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exporter.Close()
	if err := exporter.Export(t.Context(), []calls.Record{{}}); err == nil {
		t.Error("traces: got no error")
	}
	pusher, err := NewPusher(PusherOptions{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	defer pusher.Close()
	if err := pusher.to.send(t.Context(), nil); err == nil {
		t.Error("metrics: got no error")
	}
	close(asked)
	var got []string
	for path := range asked {
		got = append(got, path)
	}
	if want := []string{"/v1/traces secret", "/v1/metrics secret"}; !slices.Equal(got, want) {
		t.Errorf("the collector got %v, want %v", got, want)
	}
}

// The environment names the collector of a signal, and headers for it, unless the settings do.
func TestTheEnvironmentNamesTheCollector(t *testing.T) {
	asked := make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Api-Key") + " " + r.Header.Get("Tenant")
	}))
	defer collector.Close()
	send := func(settings Settings) string {
		t.Helper()
		exporter, err := Open(settings, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exporter.Close()
		if err = exporter.Export(t.Context(), []calls.Record{{}}); err != nil {
			t.Error(err)
		}
		return <-asked
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL+"/otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, tenant=acme")
	settings := DefaultSettings()
	if got := send(settings); got != "/otlp/v1/traces a b acme" {
		t.Errorf("of all: %q", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=c")
	for path, want := range map[string]string{"": "/v1/traces c ", "/own": "/own c "} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL+path)
		if got := send(settings); got != want {
			t.Errorf("of traces, %q: %q, want %q", path, got, want)
		}
	}
	settings.Endpoint, settings.Headers = collector.URL, map[string]string{"Tenant": "set"}
	if got := send(settings); got != "/v1/traces  set" {
		t.Errorf("of the settings: %q", got)
	}
}
