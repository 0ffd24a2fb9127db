package providers_test

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// page is the document with a line for each provider.
const page = "../../../docs/providers.md"

// TestEveryProviderCanBeUsed looks at all rows of the table.
func TestEveryProviderCanBeUsed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range providers.All() {
		for _, name := range append([]string{p.Name}, p.Names...) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if found, ok := providers.Find(strings.ToUpper(name)); !ok || found.Name != p.Name {
				t.Errorf("%s finds %s", name, found.Name)
			}
		}
		address, err := url.Parse(p.BaseURL)
		isLocal := err == nil && address.Hostname() == "127.0.0.1"
		if err != nil || address.Host == "" || strings.HasSuffix(p.BaseURL, "/") || strings.HasSuffix(p.BaseURL, "/v1") || address.Scheme != "https" && !isLocal {
			t.Errorf("%s has the address %q", p.Name, p.BaseURL)
		}
		if (p.Variable == "") != isLocal || strings.HasSuffix(p.Variable, "_API_KEY") != providers.OwnsVariable(p.Variable) {
			t.Errorf("%s has the variable %q", p.Name, p.Variable)
		}
		if _, err := kinds.Lookup(p.Adapter); err != nil || len(p.Listed()) == 0 && p.Adapter != "cohere" {
			t.Errorf("%s: %v, and serves %v", p.Name, err, p.Listed())
		}
	}
	if _, found := providers.Find("nobody"); found || len(seen) < 50 {
		t.Errorf("%d names", len(seen))
	}
}

// TestCallsGoWhereProvidersHaveThem compares the URLs of chats with those that the providers
// document.
func TestCallsGoWhereProvidersHaveThem(t *testing.T) {
	for name, want := range map[string]string{
		"deepseek": "https://api.deepseek.com/v1/chat/completions", "openrouter": "https://openrouter.ai/api/v1/chat/completions", "groq": "https://api.groq.com/openai/v1/chat/completions",
		"dashscope": "https://dashscope.aliyuncs.com/compatible-mode/v1/chat/completions", "zhipu": "https://open.bigmodel.cn/api/paas/v4/chat/completions", "zai": "https://api.z.ai/api/paas/v4/chat/completions",
		"volcengine": "https://ark.cn-beijing.volces.com/api/v3/chat/completions", "qianfan": "https://qianfan.baidubce.com/v2/chat/completions", "perplexity": "https://api.perplexity.ai/chat/completions",
		"deepinfra": "https://api.deepinfra.com/v1/openai/chat/completions", "github-models": "https://models.github.ai/inference/chat/completions", "novita": "https://api.novita.ai/openai/v1/chat/completions",
		"fireworks": "https://api.fireworks.ai/inference/v1/chat/completions", "ai21": "https://api.ai21.com/studio/v1/chat/completions", "friendli": "https://api.friendli.ai/serverless/v1/chat/completions",
		"anthropic": "https://api.anthropic.com/v1/messages",
		"bedrock":   "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/chat/completions", "bedrock-claude": "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages",
	} {
		p, _ := providers.Find(name)
		kind, err := kinds.Lookup(p.Adapter)
		if err != nil {
			t.Fatal(err)
		}
		address, err := url.Parse(p.BaseURL)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: p.BaseURL, Path: p.Path})
		if err != nil {
			t.Fatal(err)
		}
		got := address.Scheme + "://" + address.Host + target.Path
		if got != want {
			t.Errorf("%s is called at %s, want %s", name, got, want)
		}
	}
}

// TestThePageHasEveryProvider compares the document with the table; UPDATE=1 writes it.
func TestThePageHasEveryProvider(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, p := range providers.All() {
		key := "none"
		if p.Variable != "" {
			key = "`" + p.Variable + "`"
		}
		line := "`patchbay add " + p.Name + "`"
		if strings.Contains(p.Note, "no list of models") {
			line = "`patchbay add " + p.Name + " --model NAME`"
		}
		address := "`" + p.BaseURL + "`"
		if p.Path != "" {
			address += ", `path: " + p.Path + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | `%s` | %s |\n", p.Title, line, address, p.Adapter, key)
	}
	table := regexp.MustCompile(`(?s)(\| provider \|[^\n]*\n\|[-|]*\n).*?\n\n`)
	want := table.ReplaceAllStringFunc(string(content), func(old string) string {
		return table.FindStringSubmatch(old)[1] + rows.String() + "\n"
	})
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(content) {
		t.Error("docs/providers.md has not the providers of the table; UPDATE=1 go test ./internal/hosts/providers writes them")
	}
}
