package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// lacks names what the README and docs/comparison.md say is missing, in both languages, and
// words that a setting, an operation, a kind of backend or a verb would have if it were there.
var lacks = map[string][]string{
	"guardrails": {"guard", "moderat-"}, "内容护栏": {"guard"},
	"single sign-on": {"oidc", "saml", "/auth/login"}, "单点登录": {"oidc", "saml", "/auth/login"},
	"Bedrock by signed requests (SigV4)": {"bedrock", "sigv4"}, "签名请求（SigV4）的 Bedrock": {"bedrock", "sigv4"}, "Vertex AI": {"vertex"},

	"many more providers with APIs of their own (Bedrock by signed requests, Vertex AI, ...)": {"bedrock", "sigv4", "vertex"},
	"caches by meaning":           {"semantic", "similarity"},
	"prompt management":           {"/api/prompts", "prompts."},
	"accounts for people":         {"/api/users", "/api/me"},
	"sign-up":                     {"sign-up", "register"},
	"payment":                     {"payment", "invoice"},
	"redemption codes":            {"redemption", "voucher"},
	"single sign-on for managers": {"oidc", "saml", "/auth/login"},
	"exact knowledge of an engine's cache, from its own events": {"kv-events", "cache-events"},
	"a gateway for MCP": {"mcp"}, "agents that call agents": {"a2a"}, "plugins": {"plugin", "wasm"},
	"gRPC to engines": {"grpc"}, "prefill apart from decode": {"disaggregat"},
}

// impossible has the sentences of these pages that deny something, with the file and the name
// of the test that holds the gateway to each; one about other things has none.
var impossible = map[string][2]string{
	"an open gateway cannot be managed by a web page":                      {"internal/serve/web/security_crosssite_test.go", "TestPagesOfOtherSites"},
	"Absolute figures of two runs cannot be compared; ratios can, roughly": {},
}

var (
	notYetRow  = regexp.MustCompile(`(?m)^\| (?:not yet|尚未支持) \| (.*) \|$`)
	othersRows = regexp.MustCompile(`(?ms)^\| what \| who has it \|\n\|---\|---\|\n(.*?)\n\n`)
	separators = regexp.MustCompile(`, | and |、| 与 `)
	deniedWord = regexp.MustCompile(`[^.|。]*(?:\bnot yet\b|\bcannot\b|\bnot supported\b|尚未|不支持)[^.|。]*`)
)

// surface returns the names of everything that the program has.
func surface(t *testing.T) string {
	t.Helper()
	var b, out bytes.Buffer
	reference := string(gatewaytest.ReadFile(t, filepath.Join(repository, "docs/configuration.md")))
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(reference, -1) {
		fmt.Fprintln(&b, match[1])
	}
	root := newRoot(nil, &out, io.Discard)
	root.SetArgs([]string{"openapi"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var api struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(out.Bytes(), &api); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(api.Paths)), kinds.Names()) {
		fmt.Fprintln(&b, name)
	}
	for _, verb := range verbsBelow(root) {
		fmt.Fprintln(&b, verb.CommandPath())
	}
	return strings.ToLower(b.String())
}

// claimsOf returns the things that a page says are missing.
func claimsOf(page string) []string {
	var rows []string
	for _, match := range notYetRow.FindAllStringSubmatch(page, -1) {
		rows = append(rows, match[1])
	}
	if table := othersRows.FindStringSubmatch(page); table != nil {
		for row := range strings.Lines(table[1]) {
			rows = append(rows, strings.Split(strings.Trim(row, "| \n"), " | ")[0])
		}
	}
	var claims []string
	for _, row := range rows {
		if _, whole := lacks[row]; whole {
			claims = append(claims, row)
			continue
		}
		claims = append(claims, separators.Split(row, -1)...)
	}
	return claims
}

// contradictions returns what is wrong with the statements of a page about what is missing.
func contradictions(page, surface string) []string {
	var found []string
	claims := claimsOf(page)
	for _, claim := range claims {
		words, known := lacks[claim]
		if !known {
			found = append(found, fmt.Sprintf("%q is not in lacks: say by which words it would be noticed", claim))
		}
		for _, word := range words {
			if strings.Contains(surface, word) {
				found = append(found, fmt.Sprintf("it says that %q is missing, but the program has %q", claim, word))
			}
		}
	}
	for _, sentence := range deniedWord.FindAllString(page, -1) {
		sentence = strings.Join(strings.Fields(sentence), " ")
		if _, known := impossible[sentence]; !known && sentence != "not yet" && sentence != "尚未支持" {
			found = append(found, fmt.Sprintf("%q: nothing holds the program to this; add it to impossible with its test", sentence))
		}
	}
	return found
}

// The first pages say nothing is missing that the program has.
func TestNothingIsSaidToBeMissingThatIsThere(t *testing.T) {
	t.Parallel()
	has := surface(t)
	for page, least := range map[string]int{"README.md": 3, "README.zh-CN.md": 3, "docs/comparison.md": 6} {
		content := string(gatewaytest.ReadFile(t, filepath.Join(repository, page)))
		if claims := claimsOf(content); len(claims) < least {
			t.Errorf("%s: only %q were found", page, claims)
		}
		for _, problem := range contradictions(content, has) {
			t.Errorf("%s: %s", page, problem)
		}
	}
	for sentence, test := range impossible {
		if test[0] == "" {
			continue
		}
		if file := string(gatewaytest.ReadFile(t, filepath.Join(repository, test[0]))); !strings.Contains(file, "func "+test[1]+"(") {
			t.Errorf("%q: %s has no %s", sentence, test[0], test[1])
		}
	}
}

func TestFalseClaimsAreFound(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"| not yet | guardrails, single sign-on |\n":                               "",
		"| not yet | Vertex AI and telepathy |\n":                                  `"telepathy" is not in lacks`,
		"| 尚未支持 | 单点登录 |\n":                                                        "",
		"| what | who has it |\n|---|---|\n| caches by meaning, payment | x |\n\n": `it says that "caches by meaning" is missing, but the program has "semantic"`,
		"Streams that broke cannot go on.":                                         `"Streams that broke cannot go on": nothing holds`,
	} {
		found := strings.Join(contradictions(page, "answer-cache.semantic\n"), "\n")
		if !strings.Contains(found, want) || (want == "") != (found == "") {
			t.Errorf("%q: %q", page, found)
		}
	}
}
