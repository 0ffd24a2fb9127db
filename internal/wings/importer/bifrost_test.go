package importer_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// TestVirtualKeysKeepTheirModelsAndBudgets reads the keys of the test data, and calls
// models that one of them may and may not use.
func TestVirtualKeysKeepTheirModelsAndBudgets(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	result := imported(t, "bifrost.json", func(text string) string {
		return strings.ReplaceAll(text, "http://backend.example:8000", b.URL())
	})
	yaml := resolved(result, environmentsText)
	doc := gatewaytest.LoadDocument(t, yaml, t.TempDir())
	keys := map[string]access.Key{}
	for _, key := range doc.Security.Keys {
		keys[key.ID] = key
	}
	if got := keys["team-a"]; got.Tenant != "research" || strings.Join(got.Models, " ") != "claude-* gpt-4o m" || got.Limits.RequestsPerMinute != 60 || got.Budgets.Month.Cost.String() != "500" || got.ExpiresAt == "" {
		t.Errorf("%+v", got)
	}
	if got := keys["team-e"]; got.Budgets.Day.Cost.String() != "2.5" || got.KeySHA256 != access.HashOf(environmentsText) {
		t.Errorf("%+v", got)
	}
	if got := doc.Security.Tenants; len(got) != 1 || got[0].Name != "research" || got[0].Budgets.Month.Cost.String() != "1000" {
		t.Errorf("%+v", got)
	}
	r := gatewaytest.Start(t, yaml)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer sk-bf-team-a").Succeeds(t)
	if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer sk-bf-team-f").Status; got != 403 {
		t.Errorf("a model that the key is not for: %d", got)
	}
	for _, row := range result.Rows {
		if strings.Contains(row.Setting, "virtual_keys") && strings.Contains(row.Text, "there is no such setting") {
			t.Errorf("%+v", row)
		}
	}
}

// TestEmptyListsOfBifrostMeanWhatTheirVersionSays imports keys that allow nothing since
// Bifrost 1.5, and everything before.
func TestEmptyListsOfBifrostMeanWhatTheirVersionSays(t *testing.T) {
	const content = `{%s"providers":{"openai":{"keys":[{"name":"one","value":"k","models":[]}]}},
		"governance":{"virtual_keys":[{"id":"a","name":"a","value":"sk-bf-a","provider_configs":[]},{"id":"b","name":"b","value":"sk-bf-b","provider_configs":[{"provider":"openai","allowed_models":[],"key_ids":[]}]}]}}`
	result := importedText(t, importer.Bifrost, strings.Replace(content, "%s", "", 1))
	if strings.Contains(result.YAML, "instances:\n") || strings.Contains(result.YAML, "keys:") || rowOf(result, importer.NotInForce, "providers.openai.keys[0]") == "" || rowOf(result, importer.NotInForce, "governance.virtual_keys[0]") == "" {
		t.Errorf("of today:\n%s", rendered(result))
	}
	result = importedText(t, importer.Bifrost, strings.Replace(content, "%s", `"version":1,`, 1))
	if !strings.Contains(result.YAML, "models: discover") || !strings.Contains(result.YAML, "{ id: a, key-sha256:") || !strings.Contains(result.YAML, "{ id: b, key-sha256:") {
		t.Errorf("of before:\n%s", rendered(result))
	}
}

// TestKeysOfBifrostSayWhereTheirServersAre imports servers whose addresses are at their
// keys, and calls each.
func TestKeysOfBifrostSayWhereTheirServersAre(t *testing.T) {
	t.Parallel()
	for provider, member := range map[string]string{"ollama": "ollama_key_config", "sgl": "sgl_key_config", "vllm": "vllm_key_config"} {
		b := gatewaytest.StartBackend(t)
		content := `{"providers":{"` + provider + `":{"network_config":{"base_url":"http://127.0.0.1:1"},"keys":[{"name":"k","models":["m"],"weight":1,"` + member + `":{"url":"` + b.URL() + `/"}}]}}}`
		r := gatewaytest.Start(t, resolved(importedText(t, importer.Bifrost, content), ""))
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		lastCall(t, b)
	}
}

// A provider that is limited to some requests has instances of their service types only.
func TestAProviderOfBifrostServesWhatItAllows(t *testing.T) {
	for allowed, want := range map[string]string{
		`{"chat_completion":true,"chat_completion_stream":true,"embedding":false}`: "chat",
		`{"responses":true,"embedding":true}`:                                      "chat embedding",
		`{"list_models":true}`:                                                     "",
	} {
		result := importedText(t, importer.Bifrost, `{"providers":{"own":{"custom_provider_config":{"base_provider_type":"openai","allowed_requests":`+allowed+
			`},"network_config":{"base_url":"http://own.invalid"},"keys":[{"value":"k","models":["*"]}]}}}`)
		var got []string
		for line := range strings.Lines(result.YAML) {
			if name, isService := strings.CutPrefix(strings.TrimRight(line, ":\n"), "  "); isService && !strings.HasPrefix(name, " ") && !strings.HasPrefix(name, "-") {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %q\n%s", allowed, got, want, result.YAML)
		}
		if !result.Complete() {
			t.Errorf("%s: got %s, want nothing unsupported", allowed, rendered(result))
		}
	}
}
