package metrics

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryFamilyIsCollectedByItsName: a name under which something is told to a scrape is in the
// table, and each family of the table is told by somebody.
func TestEveryFamilyIsCollectedByItsName(t *testing.T) {
	places := placesOfFamilies()
	if len(places) != len(families) {
		t.Errorf("%d families have %d names", len(families), len(places))
	}
	used := map[string]bool{buildInfo: true}
	collected := regexp.MustCompile(`(\.value|\.histogram|\.timer|\.Value|\.Count|\.Flag|[sS]toresState|\.Store)\((?:to, )?"([a-z_]+)"`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range collected.FindAllStringSubmatch(string(source), -1) {
			names := []string{found[2]}
			if strings.Contains(strings.ToLower(found[1]), "store") {
				names = []string{found[2] + "_healthy", found[2] + "_failures_total"}
			}
			for _, name := range names {
				_, isFamily := places[name]
				used[name] = true
				if !isFamily && strings.HasPrefix(name, defaultPrefix) {
					t.Errorf("%s: %s is not in the table of families", path, name)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range places {
		if !used[name] && !isOfMissingWing(name) {
			t.Errorf("%s is not collected", name)
		}
	}
}

// isOfMissingWing reports whether a family is collected by a wing that this tree does not have
// (make without).
func isOfMissingWing(name string) bool {
	for beginning, wing := range map[string]string{
		"alerts": "alerts", "batch": "batches", "files": "batches", "process_": "processes", "run": "runs",
		"sessions": "signin", "websockets": "realtime",
	} {
		if _, err := os.Stat("../../wings/" + wing); err != nil && strings.HasPrefix(name, defaultPrefix+"_"+beginning) {
			return true
		}
	}
	return false
}
