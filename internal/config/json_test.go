package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

func TestJSONGoesOnTopOfWhatIsThere(t *testing.T) {
	service := config.DefaultService()
	given, err := config.DecodeJSON([]byte(`{"load-balancer":"LEAST_CONNECTIONS","rateLimit":{"algorithm":"leaky-bucket","refill_rate":5},
		"circuitBreaker":null,"healthCheck":{"interval":"2s","timeout":300},"instances":[{"name":"a","baseUrl":"http://x","instanceId":"ignored"}]}`), &service, "instanceId")
	if err != nil {
		t.Fatal(err)
	}
	if service.LoadBalancer.String() != "least_connections" || service.RateLimit.Algorithm != ratelimit.LeakyBucket || service.RateLimit.RefillRate != 5 ||
		service.RateLimit.Capacity != 100 || !service.RateLimit.Enabled || !service.CircuitBreaker.Enabled || service.HealthCheck.Timeout.String() != "300ms" {
		t.Errorf("%+v", service)
	}
	if i := service.Instances[0]; i.Name != "a" || i.Weight != 1 || !i.Enabled {
		t.Errorf("%+v", i)
	}
	for path, want := range map[string]bool{"loadBalancer": true, "circuitBreaker": false, "rateLimit.refillRate": true, "instances[0].name": true, "instances[0].apiKey": false} {
		if given.Has(path) != want {
			t.Errorf("%s is given: %t", path, !want)
		}
	}
}

func TestJSONMistakesNameTheField(t *testing.T) {
	for body, want := range map[string]string{
		``:                                       "the body is empty",
		`null`:                                   "want a JSON object",
		`[]`:                                     "want a JSON object",
		`"x"`:                                    "want a JSON object",
		`{`:                                      "ends too early",
		`{"a":1}}`:                               "not valid JSON",
		`{} {}`:                                  "something follows",
		"\ufeff{}":                               "not valid JSON",
		"{\"adapter\":\"\xff\"}":                 "UTF-8",
		`{"adaptor":"x"}`:                        `adaptor: unknown key "adaptor" (did you mean "adapter"?)`,
		`{"adapter":1}`:                          "adapter: want a string, found a number",
		`{"adapter":{}}`:                         "adapter: want a single value, found a mapping",
		`{"adapter":"a","adapter":"b"}`:          `adapter: duplicate key "adapter"`,
		`{"loadBalancer":"a","load-balancer":0}`: "loadBalancer: ",
		`{"loadBalancer":"best"}`:                `loadBalancer: unknown strategy "best" (known: ` + strings.Join(balance.RoundRobin.Names(), ", ") + ")",
		`{"loadBalancer":true}`:                  "loadBalancer: want a string",
		`{"circuitBreaker":{"recoveryTimeout":true}}`:       "circuitBreaker.recoveryTimeout: want a number or a string, found true or false",
		`{"rateLimit":[]}`:                                  "rateLimit: want a mapping, found a list",
		`{"rateLimit":{"capacity":"9"}}`:                    "rateLimit.capacity: want a number, found a string",
		`{"rateLimit":{"capacity":1.5}}`:                    "rateLimit.capacity: want a whole number",
		`{"rateLimit":{"capacity":9223372036854775808}}`:    "rateLimit.capacity: ",
		`{"rateLimit":{"enabled":"yes"}}`:                   "rateLimit.enabled: want true or false, found a string",
		`{"instances":[{"weight":1e400}]}`:                  "instances[0].weight: want a number",
		`{"instances":[null]}`:                              "instances[0]: is empty",
		`{"instances":[{"headers":{"A":1}}]}`:               `instances[0].headers["A"]: want a string`,
		`{"healthCheck":{"interval":"soon"}}`:               "healthCheck.interval: ",
		`{"x":` + strings.Repeat(`[`, 100_000):              "nested too deeply",
		`{"rateLimit":{"capacity":1,"clientIp":1,"foo":2}}`: "rateLimit.foo: unknown key",
	} {
		service := config.DefaultService()
		_, err := config.DecodeJSON([]byte(body), &service)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", body, err, want)
		}
	}
}

// What a body gives is the same, decoded on top of the stored value or decoded
// first and laid over it.
func TestOverlayIsDecodingOnTopOfTheTarget(t *testing.T) {
	stored := config.DefaultService()
	stored.RateLimit.Capacity, stored.Timeouts.Total = 7, schema.Duration(time.Minute)
	stored.Instances = []backend.Settings{backend.DefaultSettings()}
	for _, body := range []string{
		`{}`, `{"rateLimit":{}}`, `{"rateLimit":{"enabled":false,"capacity":null}}`, `{"rateLimit":null,"adapter":"ollama"}`,
		`{"rate_limit":{"Refill-Rate":3},"timeouts":{"firstByte":5}}`, `{"instances":[]}`, `{"instances":[{"name":"a","keepAlive":false,"headers":{"X-A":"b"}}]}`,
		`{"loadBalancer":"random","queue":{"timeout":100},"healthCheck":{"interval":1}}`,
	} {
		onTop, overlaid := settings.Clone(stored), settings.Clone(stored)
		if _, err := config.DecodeJSON([]byte(body), &onTop); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var scratch config.Service
		given, err := config.DecodeJSON([]byte(body), &scratch)
		if err != nil {
			t.Fatal(err)
		}
		given.Overlay(&scratch, &overlaid)
		if !reflect.DeepEqual(overlaid, onTop) {
			t.Errorf("%s: %+v, want %+v", body, overlaid, onTop)
		}
	}
}

func TestProblemsOfAServiceAreNamedAsInJSON(t *testing.T) {
	problem := config.Problem{Path: `services.chat.instances[0].headers["X-Team-Name"].base-url`}
	if path, ok := problem.InService(schema.Chat); path != `instances[0].headers["X-Team-Name"].baseUrl` || !ok {
		t.Errorf("%s, %t", path, ok)
	}
	if _, ok := problem.InService(schema.TTS); ok {
		t.Error("it is a problem of chat")
	}
}
