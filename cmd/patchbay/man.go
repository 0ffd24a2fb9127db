package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan(stdout io.Writer) *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use:   "man [DIRECTORY]",
		Short: "Write the manual pages of all verbs to a directory, or print that of the program",
		Example: `  patchbay man | man -l -
  patchbay man /usr/local/share/man/man1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				_, err := io.WriteString(stdout, manPage(root, date))
				return failed(err)
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return failed(err)
			}
			for _, verb := range append([]*cobra.Command{root}, verbsBelow(root)...) {
				path := filepath.Join(args[0], strings.ReplaceAll(verb.CommandPath(), " ", "-")+".1")
				page := []byte(manPage(verb, date))
				if err := os.WriteFile(path, page, 0o644); err != nil { //nolint:gosec // as above
					return failed(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&date, "date", "", "date of the pages, such as 2030-01-31")
	return cmd
}

// verbsBelow returns the public verbs below a command, at all depths.
func verbsBelow(cmd *cobra.Command) []*cobra.Command {
	var verbs []*cobra.Command
	for _, verb := range cmd.Commands() {
		if !verb.IsAvailableCommand() {
			continue
		}
		verbs = append(append(verbs, verb), verbsBelow(verb)...)
	}
	return verbs
}

// manPage writes the manual page of a command.
func manPage(cmd *cobra.Command, date string) string {
	var b strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 %q %q\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), date, "patchbay "+version, name,
		roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		writeParagraphs(&b, cmd.Long)
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	var flags strings.Builder
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		flag := "\\-\\-" + roff(f.Name)
		if f.Shorthand != "" {
			flag = "\\-" + f.Shorthand + ", " + flag
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			flag += " \\fI" + roff(kind) + "\\fR"
		}
		fmt.Fprintf(&flags, ".TP\n.B %s\n%s\n", flag, roff(usage))
	})
	if flags.Len() > 0 {
		b.WriteString(".SH OPTIONS\n" + flags.String())
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() {
			others = append(others, strings.ReplaceAll(verb.CommandPath(), " ", "-"))
		}
	}
	for i, other := range others {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		comma := ","
		if i == len(others)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(other), comma)
	}
	return b.String()
}

// writeParagraphs writes text; lines that begin with a blank stay as they are.
func writeParagraphs(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
			continue
		}
		fmt.Fprintf(b, ".PP\n%s\n", roff(paragraph))
	}
}

// roff escapes the characters with a meaning in manual pages.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
