package importer_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer"
)

// TestOfFilesThatOverrideEachOtherTheLastCounts reads a configuration whose files say the
// same settings: a file that is included goes before the one that includes it, a later one
// before an earlier one, and that of a profile before all. Lists are not joined.
func TestOfFilesThatOverrideEachOtherTheLastCounts(t *testing.T) {
	result := imported(t, "jairouter/application.yml", same)
	doc := gatewaytest.LoadDocument(t, resolved(result, ""), t.TempDir())
	chat := doc.Services[schema.Chat].Instances
	if len(chat) != 2 || chat[0].Name != "m" || chat[0].BaseURL != "http://backend.example:8000" || chat[0].Weight != 2 || chat[1].Name != "qwen3:4b" {
		t.Errorf("chat: %+v", chat)
	}
	if embedding := doc.Services[schema.Embedding].Instances; len(embedding) != 1 || embedding[0].Weight != 1 || embedding[0].Path != "" {
		t.Errorf("embedding: %+v", embedding)
	}
	if got := doc.Services[schema.Chat].LoadBalancer.String(); got != "least_connections" {
		t.Errorf("the strategy is %s", got)
	}
	if !strings.Contains(result.YAML, `listen: "127.0.0.1:9200"`) || len(doc.Security.Keys) != 1 || !doc.Security.Enabled {
		t.Error(result.YAML)
	}
	for setting, want := range map[string]string{
		"server.port":                        "config/router/services.yml:5 goes before it",
		"model.services.chat.instances":      "config/base/services.yml:9 goes before it",
		"jairouter.security.api-key.keys":    "config/base/services.yml:34 goes before it",
		"spring.config.import":               "not-there.yml is optional, and not there",
		"model.services.chat.instances[1]":   "is the instance m once more, which the check of JAiRouter refuses",
		"spring.config.activate.on-profile":  "a document for the profile prod, which is not active; --profile takes it",
		"model.services.embedding.instances": "config/base/services.yml:29 goes before it",
	} {
		found := false
		for _, row := range result.Rows {
			found = found || row.Outcome == importer.NotInForce && row.Setting == setting && row.Text == want
		}
		if !found {
			t.Errorf("no row says that %s is not in force: %s", setting, want)
		}
	}
}

func TestAProfileThatIsAskedForGoesBeforeTheOneThatIsNamed(t *testing.T) {
	in := input(t, "jairouter/application.yml", same)
	in.Profiles = []string{"prod"}
	result, err := importer.Import(importer.JAiRouter, in)
	if err != nil {
		t.Fatal(err)
	}
	doc := gatewaytest.LoadDocument(t, resolved(result, "sk"), t.TempDir())
	// The document of the profile is in a file that is included before that of the services.
	if len(doc.Security.Keys) != 1 || doc.Security.Keys[0].ID != "caller" || strings.Contains(result.YAML, "9200") {
		t.Errorf("%s", result.YAML)
	}
	if rowOf(result, importer.NotInForce, "spring.profiles.active") == "" || rowOf(result, importer.Taken, "--profile") == "" {
		t.Errorf("%+v", result.Rows)
	}
	in.Profiles = []string{"nowhere"}
	if result, err = importer.Import(importer.JAiRouter, in); err != nil || rowOf(result, importer.Changed, "--profile") == "" {
		t.Errorf("%v", err)
	}
}

func TestSettingsOfSpringReferToEachOther(t *testing.T) {
	result := importedText(t, importer.JAiRouter, `
house: { host: "${OWN_HOST:10.0.0.7}", token: "sk-of-the-house" }
model.services.chat.instances:
  - { name: "${house.model:a-${LAST:b}}", base-url: "http://${house.host}:${PORT}/v1", headers: { Authorization: "Bearer ${house.token}", X-Dash: "${DASH:-d}", X-File: "${file:/etc/hostname}" } }
`)
	for _, want := range []string{
		`name: "${HOUSE_MODEL:a-${LAST:b}}"`, `base-url: "http://${OWN_HOST:10.0.0.7}:${PORT:-1}/v1"`, `api-key: "${HOUSE_MODEL_A_LAST_B_API_KEY:}"`, `X-Dash: "${DASH:${DASH_DEFAULT:}}"`, `X-File: "${FILE:${FILE_DEFAULT:}}"`,
	} {
		if !strings.Contains(result.YAML, want) {
			t.Errorf("there is no %s in\n%s", want, result.YAML)
		}
	}
	values := map[string]string{}
	for _, v := range result.Variables {
		values[v.Name] = v.Value
	}
	if values["HOUSE_MODEL_A_LAST_B_API_KEY"] != "sk-of-the-house" || values["DASH_DEFAULT"] != "-d" || values["FILE_DEFAULT"] != "/etc/hostname" || values["HOUSE_MODEL"] != "" {
		t.Errorf("%v", values)
	}
}

func TestFilesOfJAiRouterThatCannotBeRead(t *testing.T) {
	services := "model: {services: {chat: {instances: [{name: m, base-url: 'http://h'}]}}}\n"
	in := importer.Input{
		Files: []importer.File{{Name: "application.yml", Content: []byte("spring.config.import: [config/a.yml, 'optional:config/b.yml']\n" + services)}},
		Open: func(name string) ([]byte, error) {
			if name == "config/b.yml" {
				return nil, fs.ErrPermission
			}
			return nil, fs.ErrNotExist
		},
	}
	result, err := importer.Import(importer.JAiRouter, in)
	if err != nil || result.Complete() || strings.Count(rendered(result), "not supported | application.yml:1 | spring.config.import") != 2 {
		t.Errorf("%v\n%s", err, rendered(result))
	}
	// A version that JAiRouter stored, and the file of a profile alone.
	if result = importedText(t, importer.JAiRouter, `{"services":{"chat":{"loadBalance":{"type":"random"},"instances":[{"name":"m","baseUrl":"http://h"}]}}}`); !strings.Contains(result.YAML, "load-balancer: random") {
		t.Error(result.YAML)
	}
	in.Files[0] = importer.File{Name: "dir/application-prod.yml", Content: []byte("server.port: 1\n")}
	if _, err := importer.Import(importer.JAiRouter, in); err == nil || !strings.Contains(err.Error(), "--profile") {
		t.Errorf("%v", err)
	}
}

// TestASecuredSourceWithoutKeysStaysClosed imports what asks callers for keys that are not
// in the file.
func TestASecuredSourceWithoutKeysStaysClosed(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	for source, content := range map[importer.Source]string{
		importer.JAiRouter: "model: {services: {chat: {instances: [{name: m, base-url: '" + b.URL() + "'}]}}}\njairouter: {security: {enabled: true}}\n",
		importer.Bifrost: `{"client":{"enforce_auth_on_inference":true},"providers":{"vllm":{"keys":[{"models":["m"],"vllm_key_config":{"url":"` + b.URL() + `","model_name":"m"}}]}},
			"governance":{"virtual_keys":[{"id":"a","name":"a"}]}}`,
	} {
		r := gatewaytest.Start(t, resolved(importedText(t, source, content), ""))
		for _, key := range []string{"", "anything"} {
			if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+key).Status; got != 401 {
				t.Errorf("%s: with the key %q: %d", source, key, got)
			}
		}
	}
}
