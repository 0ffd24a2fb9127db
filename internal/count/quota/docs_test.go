package quota_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryGuaranteeHasItsTest looks whether the tests that docs/quota.md names
// are there.
func TestEveryGuaranteeHasItsTest(t *testing.T) {
	const docs = "../../../docs"
	page, err := os.ReadFile(filepath.Join(docs, "quota.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, guarantees, _ := strings.Cut(string(page), "## What you can rely on")
	rows := regexp.MustCompile(`(?m)^\| \d+ \|.*$`).FindAllString(guarantees, -1)
	if len(rows) < 10 {
		t.Fatalf("%d guarantees", len(rows))
	}
	for _, row := range rows {
		links := regexp.MustCompile(`\[(\w+)\]\(([^)]+)\)`).FindAllStringSubmatch(row, -1)
		if len(links) == 0 {
			t.Errorf("no test: %s", row)
		}
		for _, link := range links {
			file, err := os.ReadFile(filepath.Join(docs, link[2]))
			if err != nil || !strings.Contains(string(file), "func "+link[1]+"(") {
				t.Errorf("%s is not in %s: %v", link[1], link[2], err)
			}
		}
	}
}
