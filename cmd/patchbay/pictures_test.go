package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// The scripts of the README's pictures still write what the pictures show.
func TestPicturesOfTheReadmeAreTrue(t *testing.T) {
	t.Parallel()
	outputs := map[string]func(t *testing.T, output string){
		"streams": func(t *testing.T, output string) {
			t.Helper()
			if want := ": resumed attempt=2 how=continued\ndata: [DONE]\n1\n24\n"; output != want {
				t.Errorf("%q, not %q", output, want)
			}
		},
		"budgets": func(t *testing.T, output string) {
			t.Helper()
			counts := regexp.MustCompile(`^ +(\d+) 200\n +(\d+) 429\n +10 429\n.* ([0-9.]+) USD are used`).FindStringSubmatch(output)
			if counts == nil {
				t.Fatal(output)
			}
			answered, _ := strconv.Atoi(counts[1])
			refused, _ := strconv.Atoi(counts[2])
			used, err := strconv.ParseFloat(counts[3], 64)
			if err != nil || answered+refused != 200 || used > 0.01 || used < 0.009 {
				t.Errorf("%v:\n%s", err, output)
			}
		},
		"binary": func(t *testing.T, output string) {
			t.Helper()
			if !regexp.MustCompile(`M patchbay\n\s*not a dynamic executable\n\d+ ms\n$`).MatchString(output) {
				t.Error(output)
			}
		},
	}
	scripts, err := filepath.Glob(filepath.Join(repository, "docs/images/*.sh"))
	if err != nil || len(scripts) != len(outputs) {
		t.Fatalf("%v %v", scripts, err)
	}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".sh")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShell(t, "127.0.0.1:8080", storetest.FreeAddress(t))
			for _, tool := range []string{"bash", "ldd", "xargs"} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip(tool + " is not installed")
				}
			}
			c := exec.CommandContext(gatewaytest.Deadline(t), "bash", "-c", s.address.Replace(string(gatewaytest.ReadFile(t, script))))
			c.Dir, c.Env = s.dir, s.env
			output, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			outputs[name](t, string(output))
		})
	}
}
