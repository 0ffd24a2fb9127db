package manage_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// saidBy returns what the versions changed, by their codes and values.
func saidBy(t *testing.T, r *gatewaytest.Gateway) map[int][]say.Sentence {
	t.Helper()
	type version struct {
		Version int            `json:"version"`
		Summary string         `json:"summary"`
		Said    []say.Sentence `json:"said"`
	}
	found := map[int][]say.Sentence{}
	for _, v := range gatewaytest.DataOf[[]version](t, r.API("GET", "/api/config/version?details=true", "").Is(t, 200)) {
		for i := range v.Said {
			v.Said[i].Text = ""
		}
		found[v.Version] = v.Said
	}
	return found
}

// A version has its changes as codes and values, also one that was made after a rollback.
func TestVersionsSayWhatTheyChangedByCodes(t *testing.T) {
	t.Parallel()
	const id = "m@http://127.0.0.1:9"
	yaml, dir := "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9'}]}}\n", t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	update := func(instance string) {
		t.Helper()
		r.API("PUT", "/api/config/instance/update/chat", `{"instanceId":"`+id+`","instance":`+instance+`}`).Is(t, 200, `"said":[{"code":"change.`)
	}
	update(`{"enabled":false}`)
	update(`{"weight":2}`)
	r.API("POST", "/api/config/version/rollback/1", "").Is(t, 200)
	update(`{"apiKey":"sk-of-a-backend"}`)
	r.API("POST", "/api/config/instance/add/chat", `{"name":"n","baseUrl":"http://127.0.0.1:9"}`).Is(t, 201)
	r.API("PUT", "/api/config/terms/tenants/acme", `{"limits":{"requestsPerMinute":50}}`).Is(t, 200)
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"aliases":{"fast":"m"}}`).Is(t, 200)
	want := map[int][]say.Sentence{
		1: {say.New("version.first")},
		2: {say.New("change.instance_disabled", "service", "chat", "instance", id)},
		3: {say.New("change.instance_field", "service", "chat", "instance", id, "field", "weight", "from", 1, "to", 2)},
		4: {say.New("change.instance_secret", "service", "chat", "instance", id, "field", "apiKey")},
		5: {say.New("change.instance_added", "service", "chat", "instance", "n@http://127.0.0.1:9")},
		6: {say.New("change.tenant_added", "tenant", "acme")},
		7: {say.New("change.service_field", "service", "chat", "field", "aliases.fast", "from", "(none)", "to", "m")},
	}
	if diff := cmp.Diff(want, saidBy(t, r)); diff != "" {
		t.Error(diff)
	}
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: strings.Replace(yaml, "name: m", "weight: 3, name: m", 1), DataDir: dir})
	want[8] = []say.Sentence{
		say.New("version.file_counts", "added", 0, "changed", 1, "removed", 0),
		say.New("change.instance_field", "service", "chat", "instance", id, "field", "weight", "from", 1, "to", 3),
	}
	if diff := cmp.Diff(want, saidBy(t, r)); diff != "" {
		t.Error(diff)
	}
}

// What a version changed is known without the one before it, also after a restart.
func TestVersionsSayWhatTheyChangedWithoutThoseBeforeThem(t *testing.T) {
	t.Parallel()
	yaml, dir := "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9'}]}}\n", t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	for _, strategy := range []string{"random", "least_connections"} {
		r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"`+strategy+`"}`).Is(t, 200)
	}
	r.API("DELETE", "/api/config/version/2", "").Is(t, 200, `"said":[{"code":"version.deleted","values":{"version":"2"}}]`)
	const summary = `"summary":"chat: loadBalancer random→least_connections"`
	const said = `"said":[{"code":"change.service_field","values":{"field":"loadBalancer","from":"random","service":"chat","to":"least_connections"}}]`
	r.API("GET", "/api/config/version/3", "").Is(t, 200, summary, said)
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.API("GET", "/api/config/version/3", "").Is(t, 200, summary, said)
}

// The number of the next version is never one that was used, whatever was deleted.
func TestTheNextVersionIsOneThatWasNeverUsed(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9'}]}}\n")
	next := func() int {
		t.Helper()
		return gatewaytest.DataOf[int](t, r.API("GET", "/api/config/version/next", "").Is(t, 200))
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`).Is(t, 200)
	r.API("POST", "/api/config/version/rollback/1", "").Is(t, 200)
	r.API("DELETE", "/api/config/version/2", "").Is(t, 200)
	if got := next(); got != 3 {
		t.Errorf("the next version is %d", got)
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`).Is(t, 200, `"version":3`)
	if got := next(); got != 4 {
		t.Errorf("the next version is %d", got)
	}
}

func TestRefusalsNameTheirFieldsAndCodes(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9'}]}}\n")
	r.API("PUT", "/api/config/instance/update/chat", `{"instanceId":"m@http://127.0.0.1:9","instance":{"weight":-1,"baseUrl":"ftp://x"}}`).Is(t, 400,
		`{"code":"field.url_scheme","text":"must begin with http:// or https://","field":"instance.baseUrl"}`,
		`"code":"field.weight","values":{"found":"-1"},"text":"must be between 0 (no traffic) and 1000000, not -1","field":"instance.weight"}`)
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"rnd"}`).Is(t, 400, `"code":"field.unknown_`, `"field":"loadBalancer"`)
}
