package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// credentialPlaces is the part of the help that keys and tokens share.
const credentialPlaces = `While no gateway runs, they are changed in its data directory, and in the
database of store.config where several gateways share it: use the flags that you
start the gateway with. A running gateway is asked over its API with --url or
PATCHBAY_URL, and with --token or PATCHBAY_TOKEN for a management token of the
role ADMIN where security is on. Changes take effect at once.`

// credentials name keys or tokens in commands: the word, the field that identifies one, and their
// path in the management API.
type credentials struct{ word, field, path string }

// newCredentials returns the verbs for keys or tokens.
func newCredentials(env []string, w credentials, head, create, list, edit, rotate, revoke remoteVerb) *cobra.Command {
	flags, field, one := flagsIn(env), strings.ToUpper(w.field), w.path+"/{"+w.field+"}"
	flags.mayBeOffline = true
	create.use, create.asks, create.prints = "create ["+field+"]", "POST "+w.path, reply(w.printText)
	create.aliases, create.makes = []string{"issue"}, true
	create.args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cobra.MaximumNArgs(1)(cmd, args)
		}
		if given, _ := cmd.Flags().GetString(w.field); given != "" && given != args[0] {
			return fmt.Errorf("the %[1]s is given twice: %[2]s, and --%[1]s %[3]s", w.field, args[0], given)
		}
		return cmd.Flags().Set(w.field, args[0])
	}
	list.use, list.asks = "list", "GET "+w.path
	edit.use, edit.asks, edit.needsInput = "edit "+field, "PUT "+one, true
	rotate.use, rotate.asks = "rotate "+field, "POST "+one+"/rotate"
	revoke.use, revoke.asks, revoke.aliases = "revoke "+field, "DELETE "+one, []string{"delete", "remove"}
	revoke.prints = reply(func(a *asking, done *struct {
		Changed bool `json:"changed"`
	}) error {
		line := "revoked %s\n"
		if !done.Changed {
			line = "%s was revoked already\n"
		}
		return a.printf(map[string]any{w.field: a.args[0], "changed": done.Changed}, line, a.args[0])
	})
	cmd := newFamily(flags, w.word, false, head, create, list, edit, rotate, revoke, remoteVerb{
		use: "enable " + field, asks: "POST " + one + "/enable",
		short:   "Make a " + w.word + " good that is disabled since a restore of a backup without a signature",
		example: "  patchbay " + w.word + "s enable ops",
		prints: func(a *asking) error {
			return a.printf(map[string]any{w.field: a.args[0], "enabled": true}, "enabled %s\n", a.args[0])
		},
	})
	cmd.AddCommand(newCredentialHash(w))
	return cmd
}

// printText prints the text of a credential that was just made.
func (w credentials) printText(a *asking, made *map[string]any) error {
	name, text := (*made)[w.field], (*made)[w.word]
	return a.printf(map[string]any{w.field: name, w.word: text}, "%-*s  %s\n%s  %s\n", len(w.word), w.field, name,
		w.word, text)
}

// changed prints the terms of a credential that was edited.
func changed[Line any](terms func(*Line) string) func(*asking) error {
	return reply(func(a *asking, line *Line) error {
		return a.printf(line, "changed %s: %s\n", a.args[0], terms(line))
	})
}

// sameFlag lets one flag be given by a second name.
func sameFlag(other, name string) func(*cobra.Command) {
	return func(cmd *cobra.Command) {
		cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
			if given == other {
				given = name
			}
			return pflag.NormalizedName(given)
		})
	}
}

// expiry declares the flag for the end of a key or token: a time, or how long it is until then.
func expiry() flag {
	return flag{"expires", "expiresAt", "",
		"when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h",
		func(values []string) (any, error) {
			if after, err := time.ParseDuration(values[0]); err == nil && after > 0 {
				return time.Now().Add(after).UTC().Format(time.RFC3339), nil
			}
			if _, err := time.Parse(time.RFC3339, values[0]); err != nil && values[0] != "" {
				return nil, fmt.Errorf("--expires: want a time such as 2030-01-31T00:00:00Z or a duration such as "+
					"720h, found %q", values[0])
			}
			return values[0], nil
		}}
}

// newCredentialHash returns the command that prints the hash of a credential's text.
func newCredentialHash(w credentials) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token or key that is read from standard input",
		Long: `Reads a token or key of your own from standard input, one line, and prints its
SHA-256 as security.tokens[].token-sha256 and security.keys[].key-sha256 take it.
A line break at the end does not count.`,
		Example: fmt.Sprintf("  openssl rand -hex 32 | tee %[1]s.txt | patchbay %[1]ss hash", w.word),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const longest = 8 << 10
			content, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), longest))
			if err != nil {
				return failed(err)
			}
			text := strings.TrimRight(string(content), "\r\n")
			if text == "" || strings.TrimSpace(text) != text || strings.ContainsAny(text, "\r\n") {
				return failed(errors.New("want one line on standard input, without blanks at its ends"))
			}
			a := &asking{cmd: cmd, json: asJSON}
			return a.printf(map[string]string{"sha256": access.HashOf(text)}, "%s\n", access.HashOf(text))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
