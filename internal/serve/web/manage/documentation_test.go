package manage_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Every operation has an example. TestExamplesOfTheManagementDocumentation, of the program,
// runs them.
func TestEveryManagementOperationHasAnExample(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts", "answercache", "audit", "batches", "callsearch", "processes", "spend")
	r := gatewaytest.Start(t, "")
	content := string(gatewaytest.ReadFile(t, filepath.Join("..", "..", "..", "..", "docs", "management.md")))
	covered := map[string]bool{}
	for _, example := range regexp.MustCompile(`(?m)^curl (.*?) +# \d+$`).FindAllStringSubmatch(content, -1) {
		covered[patternOf(t, r.Routes, example[1])] = true
	}
	for _, route := range r.Routes {
		_, isElsewhere := documentedElsewhere[route.Pattern]
		isManagement := strings.Contains(route.Pattern, " /api/") && !strings.Contains(route.Pattern, " /api/monitoring/")
		switch {
		case isElsewhere && (!isManagement || covered[route.Pattern]):
			t.Errorf("%s does not have to be in documentedElsewhere", route.Pattern)
		case isManagement && !isElsewhere && !covered[route.Pattern]:
			t.Errorf("%s has no example in docs/management.md", route.Pattern)
		}
	}
}

// documentedElsewhere has the operations that docs/management.md has no example of, and
// why. Those under /api/monitoring are described in docs/monitoring.md and docs/quota.md.
var documentedElsewhere = map[string]string{
	"GET /api/config/quota": "docs/quota.md; the ledger must be on",
	"PUT /api/config/quota": "docs/quota.md; the ledger must be on",
}

// patternOf returns the pattern of the route that an example is about.
func patternOf(t *testing.T, routes []web.Route, arguments string) string {
	t.Helper()
	method := http.MethodGet
	if found := regexp.MustCompile(`-X (\w+)`).FindStringSubmatch(arguments); found != nil {
		method = found[1]
	}
	operation := method + " " + regexp.MustCompile(`\$[BS](/[^"?]*)`).FindStringSubmatch(arguments)[1]
	pattern := ""
	for _, route := range routes {
		matches := regexp.MustCompile("^" + gatewaytest.PathParameter.ReplaceAllString(route.Pattern, "[^/]+") + "$").MatchString(operation)
		// A path without parameters comes before one that has them.
		if matches && (pattern == "" || route.Pattern == operation) {
			pattern = route.Pattern
		}
	}
	if pattern == "" {
		t.Errorf("no route answers %s", operation)
	}
	return pattern
}
