package gateway_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const (
	environmentSecret = "a-secret-of-the-environment"
	masterKeyText     = "the-master-key-of-this-gateway-0123456789"
)

// sentTo reports what a backend got that has a text in it.
func sentTo(b *simulator.Backend, text string) bool {
	for _, request := range b.Requests() {
		for _, values := range request.Header {
			if strings.Contains(strings.Join(values, " "), text) {
				return true
			}
		}
	}
	return false
}

// TestStoredVersionsDoNotGetTheEnvironment: whoever can write versions gets no variable
// and no file of the gateway's machine by referring to them, and never the master key.
func TestStoredVersionsDoNotGetTheEnvironment(t *testing.T) {
	t.Parallel()
	secrets := t.TempDir()
	secret, copied := filepath.Join(secrets, "secret"), filepath.Join(secrets, "copy")
	gatewaytest.WriteFile(t, secret, environmentSecret)
	gatewaytest.WriteFile(t, copied, "master-key: "+masterKeyText)
	env := []string{"SOME_SECRET=" + environmentSecret, "MASTER=" + masterKeyText, "COPY=" + masterKeyText, "LISTED=x", "LISTED_COPY=" + masterKeyText, "USED=used-by-the-file"}
	for name, reference := range map[string]string{
		"variable":          "${SOME_SECRET}",
		"in a default":      "${LISTED_NOT_SET:-${SOME_SECRET}}",
		"file":              "${file:" + secret + "}",
		"master key":        "${MASTER}",
		"its own variable":  "${PATCHBAY_SECURITY_MASTER_KEY}",
		"a copy of it":      "${COPY}",
		"a file with it":    "${file:" + copied + "}",
		"behind what it is": "${LISTED} ${MASTER}",
	} {
		for _, security := range []string{"security: {references: [LISTED, LISTED_NOT_SET]}\n", "security: {master-key: '${MASTER}', references: [LISTED, LISTED_NOT_SET]}\n"} {
			for _, isShared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/master key %t/shared %t", name, strings.Contains(security, "MASTER"), isShared), func(t *testing.T) {
					t.Parallel()
					own, foreign := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
					setup := gatewaytest.Setup{DataDir: t.TempDir(), Env: env, YAML: security + gatewaytest.ChatYAML(gatewaytest.Instance("m", own.URL(), "api-key: '${USED}'"))}
					var by intruder = onDisk{setup.DataDir}
					if isShared {
						database := storetest.Postgres(t)
						by = inPostgres{database.URL}
						setup.YAML += fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(database.URL))
					}
					gatewaytest.StartWith(t, setup).Halt()
					publish(t, by, 1, func(instance map[string]any) {
						instance["baseUrl"] = foreign.URL()
						instance["apiKey"] = map[string]any{"reference": reference}
						instance["headers"] = map[string]any{"X-Second": map[string]any{"reference": reference}}
					})
					hasKey := strings.Contains(security, "MASTER")
					if hasKey && !isShared {
						(&stored{setup: setup}).refuses(t)
						return
					}
					r := gatewaytest.StartWith(t, setup)
					if version := r.Control.Version(); version == 2 == hasKey { // nobody signed it
						t.Fatalf("version %d is in force", version)
					}
					if hasKey {
						r.Chat(gatewaytest.PlainHi).Succeeds(t)
						if len(foreign.Requests()) > 0 {
							t.Error("the version is in use")
						}
						return
					}
					reply := r.Chat(gatewaytest.PlainHi)
					instance := r.Current.Load().Service(schema.Chat).Instance("m@" + foreign.URL())
					if reply.Status != 503 || instance == nil || instance.Fault.String() == "" || len(foreign.Requests()) > 0 {
						t.Errorf("%d, %q, %d requests", reply.Status, instance.Fault, len(foreign.Requests()))
					}
					if sentTo(foreign, environmentSecret) || sentTo(foreign, masterKeyText) || strings.Contains(r.Logs.String(), environmentSecret) || strings.Contains(r.Logs.String(), masterKeyText) {
						t.Error("the secret was given away")
					}
				})
			}
		}
	}
}

// TestReferencesThatAreListedAreResolved: a gateway resolves names that its file uses no
// more, or that the files of other gateways use, if security.references lists them.
func TestReferencesThatAreListedAreResolved(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	setup := gatewaytest.Setup{DataDir: t.TempDir(), Env: []string{"OLD=the-old-key", "NEW=the-new-key"}}
	yaml := func(name, more string) string {
		return gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: '${"+name+"}'")) + more
	}
	setup.YAML = yaml("OLD", "")
	gatewaytest.StartWith(t, setup).Halt()
	setup.YAML = yaml("NEW", "")
	r := gatewaytest.StartWith(t, setup)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := lastAuthorization(b); got != "Bearer the-new-key" {
		t.Errorf("%q", got)
	}
	r.API("POST", "/api/config/version/rollback/1", "").Is(t, 200)
	if reply := r.Chat(gatewaytest.PlainHi); reply.Status != 503 {
		t.Errorf("%d", reply.Status)
	}
	const reason = "api-key: the variable OLD is none that the services of this gateway's configuration file refer to; security.references lists others that stored versions may refer to"
	if instance := r.Current.Load().Service(schema.Chat).Instance("m@" + b.URL()); instance.Fault.String() != reason || strings.Count(r.Logs.String(), reason) != 1 {
		t.Errorf("%q", instance.Fault)
	}
	r.ReloadWith(yaml("NEW", "security: {references: [OLD]}\n"))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := lastAuthorization(b); got != "Bearer the-old-key" {
		t.Errorf("%q", got)
	}
	if strings.Contains(r.Logs.String(), "take effect at the next start") {
		t.Error("the list is said to wait for a start")
	}
}
