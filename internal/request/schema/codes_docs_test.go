package schema

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/errors.md has a heading, which is an anchor, for every code that is sent, with its
// type and status.
func TestEveryCodeIsDocumented(t *testing.T) {
	const page = "../../../docs/errors.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range errorClasses {
		if class.code == CodeCancelled {
			continue
		}
		want := fmt.Sprintf("\n## %s\n\nType `%s`, status %d.\n\nWhen: ", class.code, class.typ, class.status)
		if !strings.Contains(string(content), want) {
			t.Errorf("%s: add a section that begins with%sand say what to do", page, want)
		}
	}
}
