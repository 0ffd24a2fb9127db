package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Every link of every document of the repository leads somewhere, and the site is whole.
func TestTheSiteIsWhole(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	pages, problems, err := build(root, out)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	const enough = 25
	if t.Failed() || pages < enough {
		t.Fatalf("%d pages", pages)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.html"))
	if err != nil || len(files) != pages {
		t.Fatalf("%d files for %d pages: %v", len(files), pages, err)
	}
	contents := map[string]string{}
	for _, file := range files {
		contents[file] = readFile(t, file)
	}
	reference := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for file, content := range contents {
		if strings.Contains(content, "<!-- raw HTML omitted -->") {
			t.Errorf("%s: a document has HTML, which the site leaves out", file)
		}
		for _, match := range reference.FindAllStringSubmatch(content, -1) {
			name, anchor, _ := strings.Cut(match[1], "#")
			if isExternal(match[1]) {
				continue
			}
			if anchor, err = url.PathUnescape(anchor); err != nil {
				t.Fatal(err)
			}
			target := file
			if name != "" {
				target = filepath.Join(out, name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", file, match[1], err)
			} else if anchor != "" && !strings.Contains(contents[target], `id="`+anchor+`"`) {
				t.Errorf("%s: %s is not there", file, match[1])
			}
		}
	}
	index := strings.TrimSuffix(strings.TrimPrefix(readFile(t, filepath.Join(out, "search-index.js")), "window.searchIndex = "), ";\n")
	var entries []entry
	if err := json.Unmarshal([]byte(index), &entries); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.Page == "errors.html" && e.Anchor == "circuit_breaker_open" }) {
		t.Error("the search does not know the codes of errors")
	}
	// What these pages call otherwise is found by the words that people know as well.
	for _, words := range []string{
		"graceful", "high availability", "rate limiting", "zero downtime", "quick start", "load balancer", "failover", "health check",
		"Kubernetes", "Docker", "Helm", "releases", "latency", "backup", "rollback", "Grafana", "TLS",
	} {
		if !slices.ContainsFunc(entries, func(e entry) bool {
			return e.Page != "changelog.html" && strings.Contains(strings.ToLower(e.Heading+" "+e.Text), strings.ToLower(words))
		}) {
			t.Errorf("no page has the words %q", words)
		}
	}
}

func TestProblemsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"docs/README.md": "# Index\n\n## Group\n- [A](a.md)\n- [gone](gone.md)\n",
		"docs/a.md":      "# A\n\ntext [b](b.md#part) [c](#none)\n[d](../../outside) [e](https://example.com/#x) [f](#a)\n",
		"docs/b.md":      "# B\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, problems, err := build(dir, filepath.Join(dir, "out"))
	want := []string{
		"docs/README.md:5: gone.md: there is no such file",
		"docs/a.md:3: b.md#part: there is no such heading",
		"docs/a.md:3: #none: there is no such heading",
		"docs/a.md:3: ../../outside: leads out of the repository",
		"docs/b.md: docs/README.md does not list it",
		"docs/README.md: it lists docs/gone.md, which is no page",
	}
	if err != nil || !slices.Equal(problems, want) {
		t.Errorf("%v\n%s", err, strings.Join(problems, "\n"))
	}
}

func TestAnchorsAreThoseOfGitHub(t *testing.T) {
	d := parse("a.md", []byte("# What `it` does, and why?\n\n## circuit_breaker_open\n\n## Same\n\n## Same\n\n## 30 秒上手\n"))
	var got []string
	for _, h := range d.headings {
		got = append(got, h.id)
	}
	if want := []string{"what-it-does-and-why", "circuit_breaker_open", "same", "same-1", "30-秒上手"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The versions of the clients in README are those that the tests use.
func TestClientsOfTheReadmeAreThoseOfTheTests(t *testing.T) {
	readme := readFile(t, filepath.Join(root, "README.md"))
	versions := map[string]string{}
	for _, file := range []string{"test/clients/package.json", "test/agents/package.json"} {
		var manifest struct {
			Packages map[string]string `json:"devDependencies"`
		}
		if err := json.Unmarshal([]byte(readFile(t, filepath.Join(root, file))), &manifest); err != nil {
			t.Fatal(err)
		}
		for name, version := range manifest.Packages {
			versions[name] = version
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^\tgithub.com/\S*?([a-z-]+)(?:/v\d+)? v(\S+)$`).FindAllStringSubmatch(readFile(t, filepath.Join(root, "test/clients/go.mod")), -1) {
		versions[match[1]] = match[2]
	}
	for shown, name := range map[string]string{
		"openai (npm)": "openai", "openai-go": "openai-go", "go-openai": "go-openai", "@anthropic-ai/sdk": "@anthropic-ai/sdk",
		"anthropic-sdk-go": "anthropic-sdk-go", "AI SDK": "ai", "@openai/agents": "@openai/agents", "cohere-ai": "cohere-ai",
		"Claude Code": "@anthropic-ai/claude-code", "Codex": "@openai/codex",
	} {
		if row := "| " + shown + " | " + versions[name] + " |"; !strings.Contains(readme, row) {
			t.Errorf("README.md lacks %s", row)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
