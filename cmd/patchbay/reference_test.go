package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// reference writes docs/cli.md. Flags and sentences that many verbs have stand there once.
func reference() string {
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery verb of `patchbay`, as its `--help` has it. The page is made from the program; a test keeps it true\n" +
		"(`UPDATE=1 go test ./cmd/patchbay -run TestCommandReference` writes it).\n")
	root := newRoot(nil, io.Discard, io.Discard)
	verbs := append([]*cobra.Command{root}, verbsBelow(root)...)
	common := commonFlags(verbs)
	fmt.Fprintf(&b, "\n## Common flags\n\nVerbs that talk to a running gateway find it so:\n\n```text\n%s\n\n%s\n```\n", remotePlaces, usageOf(common))
	for _, verb := range verbs {
		if strings.HasPrefix(verb.CommandPath(), "patchbay completion ") {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", verb.CommandPath(), verb.Short)
		text := strings.TrimSuffix(strings.TrimSuffix(verb.Long, remotePlaces), batchPlaces)
		if verb.Name() == "completion" {
			text = "Prints the completions of a shell: bash, zsh, fish or powershell."
		}
		own, shared := &cobra.Command{}, []string{}
		for _, name := range flagsOf(verb) {
			if words(common, name) == words(verb, name) {
				shared = append(shared, "--"+name)
				continue
			}
			own.Flags().AddFlag(verb.NonInheritedFlags().Lookup(name))
		}
		for _, block := range []string{strings.TrimSpace(text), strings.TrimRight(verb.Example, "\n"), usageOf(own)} {
			if block != "" {
				fmt.Fprintf(&b, "\n```text\n%s\n```\n", block)
			}
		}
		if len(shared) > 0 {
			fmt.Fprintf(&b, "\n[Common](#common-flags): `%s`\n", strings.Join(shared, " "))
		}
	}
	return b.String()
}

// commonFlags returns a verb with the flags that many verbs have in the same words.
func commonFlags(verbs []*cobra.Command) *cobra.Command {
	const many = 10
	count := map[string]int{}
	common := &cobra.Command{}
	for _, verb := range verbs {
		for _, name := range flagsOf(verb) {
			count[words(verb, name)]++
			if count[words(verb, name)] == many {
				common.Flags().AddFlag(verb.NonInheritedFlags().Lookup(name))
			}
		}
	}
	return common
}

var flagName = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)

// flagsOf returns the names of the flags of a verb.
func flagsOf(verb *cobra.Command) []string {
	var names []string
	for _, match := range flagName.FindAllStringSubmatch(verb.NonInheritedFlags().FlagUsages(), -1) {
		names = append(names, match[1])
	}
	return names
}

// words returns what is said about a flag of a verb, or nothing where it has none.
func words(verb *cobra.Command, name string) string {
	f := verb.NonInheritedFlags().Lookup(name)
	if f == nil {
		return ""
	}
	return f.Name + f.Usage + f.DefValue
}

// usageOf returns the words of all flags as --help has them.
func usageOf(verb *cobra.Command) string {
	return strings.TrimRight(verb.NonInheritedFlags().FlagUsagesWrapped(100), "\n")
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
