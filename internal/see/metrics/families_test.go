package metrics

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryFamilyIsCollectedByItsName: a name under which something is told to a scrape is in the
// table, and each family of the table is told by somebody.
func TestEveryFamilyIsCollectedByItsName(t *testing.T) {
	declared, labels := map[string]bool{}, slices.Clone(labelsOfWings)
	for _, f := range families {
		if declared[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		declared[f.Name] = true
		labels = append(labels, f.Labels...)
	}
	ofWing := regexp.MustCompile(`Name:\s+"(model_router_[a-z_]+)"`)
	labelsOf := regexp.MustCompile(`Labels:\s+\[\]string\{(.*?)\}`)
	used := map[string]bool{buildInfo: true}
	collected := regexp.MustCompile(`(\.value|\.histogram|\.longest|\.timer|\.Value|\.Count|\.Flag|[sS]toresState|\.Store)\((?:to, )?"([a-z_]+)"`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if strings.Contains(path, "/wings/") {
			for _, found := range ofWing.FindAllStringSubmatch(string(source), -1) {
				declared[found[1]] = true
			}
			for _, found := range labelsOf.FindAllStringSubmatch(string(source), -1) {
				for label := range strings.SplitSeq(found[1], ", ") {
					if !slices.Contains(labels, strings.Trim(label, `"`)) {
						t.Errorf("%s: custom tags may have the name of the label %s; add it to labelsOfWings", path, label)
					}
				}
			}
		}
		for _, found := range collected.FindAllStringSubmatch(string(source), -1) {
			names := []string{found[2]}
			if found[1] == ".longest" {
				names = append(names, found[2]+"_max")
			}
			if strings.Contains(strings.ToLower(found[1]), "store") {
				names = []string{found[2] + "_healthy", found[2] + "_failures_total"}
			}
			for _, name := range names {
				used[name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range used {
		if !declared[name] && strings.HasPrefix(name, defaultPrefix) {
			t.Errorf("%s is not declared", name)
		}
	}
	for name := range declared {
		if !used[name] {
			t.Errorf("%s is not collected", name)
		}
	}
}
