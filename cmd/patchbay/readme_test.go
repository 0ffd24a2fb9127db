package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// The commands that the README gives for the demo work in their order, each with
// what the ones before it made.
func TestCommandsOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "sed", "base64", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	content := string(gatewaytest.ReadFile(t, filepath.Join("..", "..", "README.md")))
	_, section, found := strings.Cut(content, "## Every endpoint answers")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(section)
	if !found || block == nil || strings.Count(block[1], "curl ") < 7 {
		t.Fatalf("the README has no commands for the demo")
	}
	demo := startChild(t, "demo", "--listen", "127.0.0.1:0")
	demo.waitFor("Ctrl-C stops")
	base := regexp.MustCompile(`API base +(\S+)/v1`).FindStringSubmatch(demo.stderr.String())
	if base == nil {
		t.Fatal(demo.stderr.String())
	}
	script := strings.ReplaceAll(block[1], "http://127.0.0.1:8080", base[1])
	script = strings.ReplaceAll(script, "curl ", "curl --silent --show-error --fail ")
	command := exec.CommandContext(gatewaytest.Deadline(t), "sh", "-e")
	command.Stdin = strings.NewReader(script)
	command.Dir = t.TempDir()
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if picture := gatewaytest.ReadFile(t, filepath.Join(command.Dir, "picture.png")); !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Error("picture.png is no picture")
	}
}
