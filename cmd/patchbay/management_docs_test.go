package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// The examples of docs/management.md do what they say, for somebody who copies them one
// after the other into a terminal.
func TestExamplesOfTheManagementDocumentation(t *testing.T) {
	t.Parallel()
	c := serving(t)
	const mark = "test=TestExamplesOfTheManagementDocumentation"
	page := strings.Join(commandsOf(t, "docs/management.md", mark), "")
	example := regexp.MustCompile(`(?m)^curl (.*?) +# (\d+)$`)
	if n := len(example.FindAllString(page, -1)); n < 50 {
		t.Fatalf("the page has only %d examples", n)
	}
	// check runs one example and notes what it answered if that has another status.
	const check = `trap 'kill $! 2>/dev/null || true' EXIT
check() {
	want=$1; shift
	answer=$(curl -s --no-fail -w '\n%{http_code}' "$@" 2>&1) || true
	[ "${answer##*
}" = "$want" ] || printf '%s\n%s\n\n' "$*" "$answer" >>failed
}
`
	s := newShell(t, "http://127.0.0.1:8080", c.url(), "127.0.0.1:8081", storetest.FreeAddress(t))
	s.run(check + example.ReplaceAllString(page, "check $2 $1"))
	if failed, err := os.ReadFile(filepath.Join(s.dir, "failed")); err == nil {
		t.Errorf("examples with another status:\n%s", failed)
	}
}
