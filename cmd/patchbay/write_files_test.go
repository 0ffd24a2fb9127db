package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A verb that cannot write all of its files says so, and leaves the configuration that was
// there.
func TestVerbsThatCannotWriteLeaveTheOldConfiguration(t *testing.T) {
	t.Parallel()
	source := filepath.Join("..", "..", "internal", "wings", "importer", "testdata", "litellm.yaml")
	for name, c := range map[string]struct {
		inTheWay string // a directory where a file is to be
		args     func(file string) []string
	}{
		"import, the values": {"", func(file string) []string {
			return []string{"import", source, "-o", file, "--force", "--env-file", filepath.Join(filepath.Dir(file), "missing", "secrets.env")}
		}},
		"import, the names": {".env.example", func(file string) []string { return []string{"import", source, "-o", file, "--force"} }},
		"init, the schema":  {schemaFile, func(file string) []string { return []string{"init", file, "--ports", "0", "--force"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "patchbay.yaml")
			gatewaytest.WriteFile(t, file, "# mine\n")
			if c.inTheWay != "" {
				if err := os.Mkdir(filepath.Join(dir, c.inTheWay), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := runFor(t, c.args(file)...)
			if code != exitFailed || !strings.Contains(stderr, "directory") {
				t.Errorf("%d %s%s", code, stdout, stderr)
			}
			if content := string(gatewaytest.ReadFile(t, file)); content != "# mine\n" {
				t.Errorf("the file is %s", content)
			}
			entries, err := os.ReadDir(dir)
			for _, entry := range entries {
				if err != nil || strings.HasPrefix(entry.Name(), ".new-") {
					t.Errorf("left behind: %s, %v", entry.Name(), err)
				}
			}
		})
	}
}
