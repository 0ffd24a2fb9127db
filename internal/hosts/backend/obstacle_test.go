package backend

import (
	"os"
	"strings"
	"testing"
)

// The console has words for every obstacle with which a call can record that an instance was
// passed over, in both languages.
func TestTheConsoleNamesEveryObstacle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pages/calls/drawer.tsx", "i18n/en.ts", "i18n/zh.ts"} {
		source, err := os.ReadFile("../../../console/src/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for o := NoObstacle + 1; int(o) < Obstacles; o++ {
			row := "\n  'calls.over." + o.String() + "': '"
			if name == "pages/calls/drawer.tsx" {
				row = "\n  " + o.String() + ": 'calls.over." + o.String() + "',\n"
			}
			if !strings.Contains(string(source), row) {
				t.Errorf("console/src/%s has no words for %s", name, o)
			}
		}
	}
}
