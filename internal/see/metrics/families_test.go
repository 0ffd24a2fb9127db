package metrics

import (
	"os"
	"regexp"
	"testing"
)

// TestEveryFamilyIsCollectedByItsName: a name that a scrape uses is in the table, and each family of
// the table is used.
func TestEveryFamilyIsCollectedByItsName(t *testing.T) {
	source, err := os.ReadFile("collect.go")
	if err != nil {
		t.Fatal(err)
	}
	places := placesOfFamilies()
	if len(places) != len(families) {
		t.Errorf("%d families have %d names", len(families), len(places))
	}
	used := map[string]bool{buildInfo: true}
	for _, found := range regexp.MustCompile(`s\.(value|histogram|timer|store)\("([^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		names := []string{found[2]}
		if found[1] == "store" {
			names = []string{found[2] + "_healthy", found[2] + "_failures_total"}
		}
		for _, name := range names {
			used[name] = true
			if _, ok := places[name]; !ok {
				t.Errorf("%s is not in the table of families", name)
			}
		}
	}
	for name := range places {
		if !used[name] {
			t.Errorf("%s is not collected", name)
		}
	}
}
