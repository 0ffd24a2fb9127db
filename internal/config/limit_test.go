package config_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

const someMasterKey = "a-master-key-of-thirty-two-characters"

// TestWhatStoredVersionsMayReferTo: the names that the services of the file use for their
// secrets, wherever they were given, and those of security.references; not what other
// settings use, and never the master key.
func TestWhatStoredVersionsMayReferTo(t *testing.T) {
	loaded, err := config.Load(config.Source{
		File: "p.yaml",
		Content: []byte(`
redis: {url: "${REDIS_URL}"}
security: {master-key: "${MASTER}", references: [LISTED]}
services: {chat: {instances: [
  {name: a, base-url: "${HOST}", api-key: "${USED}", headers: {X-Team: "team ${TEAM:-${DEFAULT}}"}},
  {name: b, base-url: "http://b"}]}}
`),
		Env: []string{
			"REDIS_URL=redis://:password@127.0.0.1:6379", "MASTER=" + someMasterKey, "LISTED=1", "HOST=http://a", "USED=2", "TEAM=3", "DEFAULT=4",
			"PATCHBAY_SERVICES_CHAT_INSTANCES_1_API_KEY=5", "OTHER=6",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"LISTED": "1", "USED": "2", "TEAM": "3", "DEFAULT": "4", "PATCHBAY_SERVICES_CHAT_INSTANCES_1_API_KEY": "5",
		"OTHER": "", "REDIS_URL": "", "HOST": "", "MASTER": "", "PATCHBAY_SECURITY_MASTER_KEY": "",
	} {
		if got, err := loaded.Document.Resolve("${" + name + "}"); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestTheMasterKeyIsNoKeyOfABackend(t *testing.T) {
	for name, content := range map[string]string{
		"by its name":      `{security: {master-key: "${MASTER}"}, services: {chat: {instances: [{name: a, base-url: "http://a", api-key: "${MASTER}"}]}}}`,
		"by its text":      `{security: {master-key: "${MASTER}"}, services: {chat: {instances: [{name: a, base-url: "http://a", headers: {X-Key: "${COPY}"}}]}}}`,
		"the previous one": `{security: {master-key: ` + someMasterKey + `-2, previous-master-key: "${MASTER}"}, services: {chat: {instances: [{name: a, base-url: "http://a", api-key: "${MASTER}"}]}}}`,
		"listed":           `{security: {master-key: "${MASTER}", references: [OTHER, MASTER]}}`,
		"listed copy":      `{security: {master-key: "${MASTER}", references: [COPY]}}`,
		"of the variable":  `{security: {references: [PATCHBAY_SECURITY_MASTER_KEY]}}`,
		"no name":          `{security: {references: ["$${A}"]}}`,
	} {
		_, err := config.Load(config.Source{File: "p.yaml", Content: []byte(content), Env: []string{"MASTER=" + someMasterKey, "COPY=" + someMasterKey}})
		want := "the master key"
		if name == "no name" {
			want = "want the name of a variable"
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), someMasterKey) || !strings.Contains(err.Error(), "p.yaml:1:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
