package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
)

// reference writes docs/cli.md.
func reference() string {
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery verb of `patchbay`, as its `--help` has it. The page is made from the program; a test keeps it true\n(`UPDATE=1 go test ./cmd/patchbay -run TestCommandReference` writes it).\n")
	root := newRoot(nil, io.Discard, io.Discard)
	for _, verb := range append([]*cobra.Command{root}, verbsBelow(root)...) {
		if strings.HasPrefix(verb.CommandPath(), "patchbay completion ") {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", verb.CommandPath(), verb.Short)
		text := verb.Long
		if verb.Name() == "completion" {
			text = "Prints the completions of a shell: bash, zsh, fish or powershell."
		}
		if text != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimSpace(text))
		}
		if verb.Example != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.TrimRight(verb.Example, "\n"))
		}
		if usage := strings.TrimRight(verb.NonInheritedFlags().FlagUsagesWrapped(100), "\n"); usage != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", usage)
		}
	}
	return b.String()
}

func TestCommandReference(t *testing.T) {
	const page = "../../docs/cli.md"
	want := reference()
	if os.Getenv("UPDATE") != "" {
		gatewaytest.WriteFile(t, page, want)
	}
	if got := string(gatewaytest.ReadFile(t, page)); got != want {
		t.Errorf("%s is not what the program says; UPDATE=1 go test ./cmd/patchbay -run TestCommandReference writes it", page)
	}
}
