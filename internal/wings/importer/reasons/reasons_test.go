package reasons

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// documented returns a page of the documentation.
func documented(t *testing.T, page string) string {
	t.Helper()
	content, err := os.ReadFile("../../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What a reason names has to be there: settings, pages, and verbs of the program.
func TestReasonsNameWhatIsThere(t *testing.T) {
	reference, verbs := documented(t, "configuration.md"), documented(t, "cli.md")
	page, verb := regexp.MustCompile(`docs/([a-z-]+\.md)`), regexp.MustCompile(`patchbay [a-z]+( create| edit| issue| add)?`)
	named := regexp.MustCompile(`[a-z]+(-[a-z]+)*(\.[a-z]+(-[a-z]+)*)+|[a-z]+(-[a-z]+)+: |adapter: `)
	for _, r := range known {
		text := r.text
		for _, match := range page.FindAllStringSubmatch(text, -1) {
			documented(t, match[1])
			text = strings.ReplaceAll(text, match[0], "")
		}
		for _, name := range verb.FindAllString(text, -1) {
			if !strings.Contains(verbs, name) && !strings.Contains(verbs, strings.Replace(name, "issue", "create", 1)) {
				t.Errorf("%s %s: got the verb %q, which docs/cli.md does not have", r.source, r.part, name)
			}
		}
		for _, name := range named.FindAllString(text, -1) {
			if name = strings.TrimSuffix(name, ": "); !strings.Contains(reference, name) {
				t.Errorf("%s %s: got the setting %q, which docs/configuration.md does not have", r.source, r.part, name)
			}
		}
	}
}

// absent matches the claim that something is missing.
var absent = regexp.MustCompile(`there (is|are) no |are not kept|no such setting|are not `)

// reviewed are parts with words of settings of which a reason claims that something is missing, and
// why it is true.
var reviewed = map[string]string{
	"_tools":                "tools that the gateway itself runs",
	"custom_auth":           "code of users",
	"default_team_settings": "the tenants are named",
	"credential_list":       "it is about models of the source",
	"credential_info":       "notes",
	"].description":         "notes",
	"hash-algorithm":        "ip-hash has one",
	"fallback":              "an answer in place of another; fallbacks are named",
	"client_secret":         "Entra ID",
	"client_id":             "Entra ID",
	"tenant_id":             "Entra ID",
	"upstream":              "pages of model servers",
	"].tag":                 "labels",
}

// A reason that claims that something is missing is about no word that settings have.
func TestReasonsDenyNothingThatIsThere(t *testing.T) {
	words := map[string]bool{}
	split := regexp.MustCompile(`[a-z]+`)
	for line := range strings.Lines(documented(t, "configuration.md")) {
		if name, isRow := strings.CutPrefix(line, "| `"); isRow {
			name, _, _ = strings.Cut(name, "`")
			for _, word := range split.FindAllString(name, -1) {
				words[strings.TrimSuffix(word, "s")] = true
			}
		}
	}
	for _, r := range known {
		if !absent.MatchString(r.text) || strings.Contains(r.text, "docs/") {
			continue
		}
		for _, word := range split.FindAllString(strings.ToLower(r.part), -1) {
			if word = strings.TrimSuffix(word, "s"); words[word] && reviewed[r.part] == "" {
				t.Errorf("%s %s: got %q, though a setting has %q in its name", r.source, r.part, r.text, word)
			}
		}
	}
}

func TestReasonsNameTheSetting(t *testing.T) {
	for _, c := range []struct{ source, path, names string }{
		{"litellm", "general_settings.alerting", "alerts.webhooks"},
		{"litellm", "litellm_settings.max_budget", "security.tenants"},
		{"litellm", "litellm_settings.budget_duration", "security.keys"},
		{"litellm", "model_list[0].litellm_params.temperature", "body of the instance"},
		{"litellm", "litellm_settings.set_verbose", "log.level"},
		{"llama-swap", "captureBuffer", "monitoring.capture"},
		{"jairouter", "monitoring.metrics.prefix", "monitoring.prefix"},
		{"one-api", "channels[0].param_override", "body of the instances"},
		{"litellm", "litellm_settings.unheard_of", "docs/configuration.md"},
	} {
		if text, _ := For(c.source, c.path); !strings.Contains(text, c.names) || strings.Contains(text, "no such setting") {
			t.Errorf("%s %s: got %q, want %s in it", c.source, c.path, text, c.names)
		}
	}
}
