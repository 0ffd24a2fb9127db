// This file belongs to the wing batches.

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The verbs for those who run a gateway list and delete what clients have left there.
func TestVerbsDeleteFilesAndBatches(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	c := serving(t, "--data-dir", t.TempDir(), "--set", "batches.enabled=true", "--set", "log.access=false", "--set", "services.chat.instances=[{name: m, base-url: '"+backend.URL()+"'}]")
	file := filepath.Join(t.TempDir(), "prompts.txt")
	gatewaytest.WriteFile(t, file, "one\ntwo\n")
	verb := func(want int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := run(append(args, "--url", c.url()), nil, &out, &errs); code != want {
			t.Fatalf("%v: %d %s", args, code, errs.String())
		}
		return out.String() + errs.String()
	}
	var ids []string
	for range 2 {
		id := batchesVerb(t, c, "submit", file, "--model", "m")
		batchesVerb(t, c, "follow", id)
		ids = append(ids, id)
	}
	if list := verb(exitOK, "files", "list", "--keyless"); strings.Count(list, "prompts.txt") != 2 || strings.Count(list, "batch_output") != 2 {
		t.Errorf("the files are\n%s", list)
	}
	if list := verb(exitOK, "files", "list", "--tenant", "acme"); strings.Contains(list, "file-") {
		t.Errorf("the files of a tenant are\n%s", list)
	}
	verb(exitUsage, "files", "delete")
	verb(exitUsage, "batches", "delete", ids[0], "--keyless")
	verb(exitFailed, "batches", "delete", "batch_none")
	for _, step := range []struct {
		want string
		args []string
	}{
		{"deleted " + ids[0], []string{"batches", "delete", ids[0]}},
		{"would delete 1 batches", []string{"batches", "delete", "--keyless", "--dry-run"}},
		{"deleted 1 batches", []string{"batches", "delete", "--keyless"}},
		{"deleted 2 files", []string{"files", "delete", "--keyless"}},
	} {
		if said := verb(exitOK, step.args...); !strings.Contains(said, step.want) {
			t.Errorf("%v says %q, want %q", step.args, said, step.want)
		}
	}
	if list := verb(exitOK, "files", "list", "--json"); strings.TrimSpace(list) != "[]" {
		t.Errorf("the files are %s", list)
	}
}
