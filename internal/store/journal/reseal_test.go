package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// A plain file is sealed only if nothing was sealed before.
func TestAPlainFileIsResealedOnlyAtFirst(t *testing.T) {
	keys, err := seal.New(strings.Repeat("k", seal.MinKeyLength), "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "answers")
	head, _ := journal.Answers.Head(nil, "p")
	plain := journal.Answers.End(append(journal.Answers.Begin(nil), "text"...), 0, nil, 0)
	if err := os.WriteFile(path, append(head, plain...), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	if err := journal.Answers.Reseal(path, keys, "p", false); err == nil {
		t.Error("got no error for a plain file, want one")
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the refused file is changed")
	}
	if err := journal.Answers.Reseal(path, keys, "p", true); err != nil {
		t.Error(err)
	}
	if after, _ := os.ReadFile(path); strings.Contains(string(after), "text") {
		t.Error("the file is still plain")
	}
}
