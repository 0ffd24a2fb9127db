package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A literal that looks like a reference stays one, in JSON too.
func TestSecretsInJSON(t *testing.T) {
	t.Parallel()
	for secret, want := range map[backend.Secret]string{
		{}:                                     `""`,
		backend.Literal("sk-1"):                `"sk-1"`,
		backend.Literal("${file:/etc/passwd}"): `"${file:/etc/passwd}"`,
		backend.Literal(`{"reference":"${KEY}"}`): `"{\"reference\":\"${KEY}\"}"`,
		backend.Reference("${KEY}"):               `{"reference":"${KEY}"}`,
	} {
		written, err := json.Marshal(secret)
		var read backend.Secret
		if err == nil {
			err = json.Unmarshal(written, &read)
		}
		if err != nil || string(written) != want || read != secret {
			t.Errorf("%#v is written as %s and read as %#v, %v", secret, written, read, err)
		}
	}
	for _, wrong := range []string{`{"reference":"a","more":1}`, `1`, `["a"]`} {
		if err := json.Unmarshal([]byte(wrong), new(backend.Secret)); err == nil {
			t.Errorf("%s is read as a secret", wrong)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	settings := backend.Settings{APIKey: backend.Literal("sk-very-secret"), Headers: map[string]backend.Secret{"A": backend.Reference("${KEY:sk-default}")}}
	if printed := fmt.Sprintf("%v %+v %s", settings, settings, settings.Headers["A"]); strings.Contains(printed, "sk-") {
		t.Error(printed)
	}
}

// Where a reference cannot be used the instance is out, with the reason, which
// callers are not told.
func TestInstanceWithoutItsSecretGetsNoTraffic(t *testing.T) {
	t.Parallel()
	for want, resolve := range map[string]backend.Resolver{
		"api-key: variable KEY is not set and has no default":                 func(string) (string, error) { return "", errors.New("variable KEY is not set and has no default") },
		"api-key: must not contain control characters or line breaks":         func(string) (string, error) { return "two\nlines", nil },
		"api-key: this gateway has no configuration that resolves references": nil,
		"": func(reference string) (string, error) { return "sk of " + reference, nil },
	} {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL, settings.APIKey = "m", "http://127.0.0.1:1", backend.Reference("${KEY}")
		i, err := backend.New(settings, schema.Chat, backend.Policy{Adapter: "openai", Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings(), Resolve: resolve}, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if i.Fault.String() != want || i.Healthy() != (want == "") || say.Join(i.HealthReason()) != want {
			t.Errorf("want %q: fault %q, healthy %t, reason %q", want, i.Fault, i.Healthy(), say.Join(i.HealthReason()))
		}
		obstacle := i.Obstacle(time.Now())
		if (obstacle == backend.Faulty) != (want != "") || strings.Contains(i.WhyNot(obstacle, time.Now()).String(), "KEY") {
			t.Errorf("want %q: obstacle %d, %s", want, obstacle, i.WhyNot(obstacle, time.Now()))
		}
		var call wire.Call
		if err := i.Target.Authorize(t.Context(), &call); err != nil || want == "" && call.Header[0].Value != "Bearer sk of ${KEY}" {
			t.Errorf("sent: %v, %v", call.Header, err)
		}
	}
}
