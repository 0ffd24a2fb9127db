package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What commands are given as the next step is one word to a shell, whatever it is.
func TestCommandsToCopyAreQuoted(t *testing.T) {
	for _, word := range []string{
		"gateway.yaml", "/etc/patchbay/gateway.yaml", "http://127.0.0.1:8080/v1", "http://[::1]:8080/", "a b", "it's", "", "$(echo x)", "`echo x`",
		"a;echo x", "a&b", "a|b", "a>b", "*", "~", "#a", `a\b`, `a"b`, "a\nb", "日本語",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellWord(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q as %s is %q to a shell (%v)", word, shellWord(word), out, err)
		}
	}
	file := filepath.Join(t.TempDir(), "my gateway.yaml")
	code, stdout, stderr := runHere(t, "init", "--ports", "0", "--yes", file)
	content, err := os.ReadFile(file)
	if code != exitOK || err != nil || !strings.Contains(stdout, "patchbay serve '"+file+"'") || !strings.Contains(string(content), "patchbay check '"+file+"'") {
		t.Errorf("%d %s %s %v", code, stdout, stderr, err)
	}
}
