package gatewaytest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// wingOfSetting names the wing that brings a setting.
var wingOfSetting = map[string]string{
	"responses": "answers", "answercache": "answercache", "files": "batches", "batches": "batches",
	"processes": "processes", "processmemory": "processes", "websockets": "realtime", "callsfile": "callsearch",
	"alerts": "alerts", "selfservice": "selfservice", "runs": "runs",
}

// Needs skips a test of the core that uses wings, where this is a tree without one of them
// (make without).
func Needs(t *testing.T, wings ...string) {
	t.Helper()
	for _, wing := range wings {
		if !HasWing(t, wing) {
			t.Skipf("this tree has no wing %s", wing)
		}
	}
}

// HasWing reports whether this tree has the folder of a wing.
func HasWing(t *testing.T, wing string) bool {
	t.Helper()
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			_, err := os.Stat(filepath.Join(dir, "internal", "wings", wing))
			return err == nil
		}
		if absolute, err := filepath.Abs(dir); err != nil || absolute == filepath.Dir(absolute) {
			t.Fatal("the root of the repository was not found")
		}
	}
}

var unknownKey = regexp.MustCompile(`unknown key "([^"]+)"`)

// needsSettings skips a test with a configuration that cannot be read because it has settings
// of wings that this tree does not have.
func needsSettings(t *testing.T, err error) {
	t.Helper()
	for _, found := range unknownKey.FindAllStringSubmatch(err.Error(), -1) {
		if wing := wingOfSetting[schema.Fold(found[1])]; wing != "" {
			Needs(t, wing)
		}
	}
}
