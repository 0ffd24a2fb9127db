package gateway_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// docs/errors.md has a heading, which is an anchor, for every code that is sent, with its
// type and status.
func TestEveryCodeIsDocumented(t *testing.T) {
	const page = "../../docs/errors.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range schema.ErrorClasses() {
		if class.Code == schema.CodeCancelled {
			continue
		}
		want := fmt.Sprintf("\n## %s\n\nType `%s`, status %d.\n\nWhen: ", class.Code, class.Type, class.Status)
		if !strings.Contains(string(content), want) {
			t.Errorf("%s: add a section that begins with%sand say what to do", page, want)
		}
	}
}
