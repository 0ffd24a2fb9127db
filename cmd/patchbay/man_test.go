package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestEveryVerbHasAManualPage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, stderr := runFor(t, "man", dir, "--date", "2030-01-31"); code != exitOK {
		t.Fatal(stderr)
	}
	root := newRoot(nil, io.Discard, io.Discard)
	verbs := verbsBelow(root)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(verbs)+1 || len(verbs) < 15 {
		t.Fatalf("%v: %d pages of %d verbs", err, len(pages), len(verbs))
	}
	serve := string(gatewaytest.ReadFile(t, filepath.Join(dir, "patchbay-serve.1")))
	for _, part := range []string{`.TH PATCHBAY-SERVE 1 "2030-01-31"`, ".SH SYNOPSIS", `\-\-listen`, ".BR patchbay (1)"} {
		if !strings.Contains(serve, part) {
			t.Errorf("%q is missing in\n%s", part, serve)
		}
	}
	man, err := exec.LookPath("man")
	if err != nil {
		return // whether the pages can be shown, is tried where there is man(1)
	}
	for _, page := range pages {
		command := exec.CommandContext(gatewaytest.Deadline(t), man, "--warnings", "-l", page)
		command.Env = append(os.Environ(), "MANPAGER=cat", "LC_ALL=C.UTF-8")
		var warnings strings.Builder
		command.Stderr = &warnings
		if err := command.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v %s", page, err, warnings.String())
		}
	}
}

// Every verb says what it does and has examples, in lines that fit a terminal.
func TestEveryVerbHasHelp(t *testing.T) {
	for _, verb := range verbsBelow(newRoot(nil, io.Discard, io.Discard)) {
		if verb.Short == "" {
			t.Errorf("%s does not say what it does", verb.CommandPath())
		}
		if isOwn := !strings.HasPrefix(verb.CommandPath(), "patchbay completion"); isOwn && verb.Example == "" {
			t.Errorf("%s has no examples", verb.CommandPath())
		}
		for line := range strings.Lines(verb.Long) {
			if len(line) > 100 {
				t.Errorf("%s: %q is too long for a terminal", verb.CommandPath(), line)
			}
		}
	}
}
