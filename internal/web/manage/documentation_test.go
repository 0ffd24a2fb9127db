package manage_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// The examples of the documentation do what they say.
func TestExamplesOfTheManagementDocumentation(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	r, secured := gatewaytest.Start(t, ""), gatewaytest.Start(t, gatewaytest.SecuredYAML())
	content := string(gatewaytest.ReadFile(t, filepath.Join("..", "..", "..", "docs", "management.md")))
	examples := regexp.MustCompile(`(?m)^curl (.*?) +# (\d+)$`).FindAllStringSubmatch(content, -1)
	if len(examples) < 30 {
		t.Fatalf("only %d examples", len(examples))
	}
	covered := map[string]bool{}
	for _, example := range examples {
		command := exec.CommandContext(gatewaytest.Deadline(t), "sh", "-c", curl+` -s -w '\n%{http_code}' `+example[1])
		command.Env = []string{"B=" + r.URL}
		if strings.Contains(example[1], "$TOKEN") {
			command.Env = []string{"B=" + secured.URL, "TOKEN=admin-token"}
		}
		command.Dir = t.TempDir() // a download is saved where the command runs
		output, err := command.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		if err != nil || lines[len(lines)-1] != example[2] {
			t.Errorf("curl %s: %v, want %s: %s", example[1], err, example[2], output)
		}
		covered[operationOf(example[1])] = true
	}
	for _, route := range r.Routes {
		isOurs := regexp.MustCompile(` /api/(config/(type|instance|version|merge)|models|route|auth)`).MatchString(route.Pattern)
		if pattern := gatewaytest.PathParameter.ReplaceAllString(route.Pattern, "*"); isOurs && !covered[pattern] {
			t.Errorf("%s has no example", route.Pattern)
		}
	}
}

// operationOf names the route that an example is about, with * for parameters.
func operationOf(arguments string) string {
	method := http.MethodGet
	if found := regexp.MustCompile(`-X (\w+)`).FindStringSubmatch(arguments); found != nil {
		method = found[1]
	}
	path := regexp.MustCompile(`\$B(/[^"?]*)`).FindStringSubmatch(arguments)[1]
	path = regexp.MustCompile(`/(chat|imgEdit|tts|team-a|ci|\d+)(/|$)`).ReplaceAllString(path, "/*$2")
	return method + " " + path
}
