package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

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

// credentialFlags say where keys and tokens are managed: in the data directory
// of a gateway that does not run, or at one that does.
type credentialFlags struct {
	remoteFlags
	json bool
	// makes says that a data directory that is not there is made.
	makes bool
}

func newCredentialFlags(env []string) *credentialFlags {
	return &credentialFlags{remoteFlags: remoteFlags{settingFlags: settingFlags{env: env}}}
}

func (f *credentialFlags) register(cmd *cobra.Command) {
	f.settingFlags.register(cmd)
	registerURL(cmd, &f.url)
	cmd.Flags().StringVar(&f.token, "token", "", "management token (default $PATCHBAY_TOKEN)")
	f.trust.register(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
}

// print writes a value as JSON where that was asked for, else the text.
func (f *credentialFlags) print(to io.Writer, value any, format string, args ...any) error {
	if !f.json {
		_, err := fmt.Fprintf(to, format, args...)
		return err
	}
	return writeJSON(to, value)
}

// credentialWords name keys or tokens in commands: the word, the field that identifies
// one, and their path in the management API.
type credentialWords struct{ word, field, path string }

// keyWords describe keys, tokenWords describe tokens.
var (
	keyWords   = credentialWords{"key", "id", "/api/auth/keys"}
	tokenWords = credentialWords{"token", "name", "/api/auth/tokens"}
)

// oneArg returns the check that a verb has exactly one argument.
func oneArg(field, thing, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("the %s of the %s is missing; %s", field, thing, hint)
		case 1:
			return nil
		}
		return fmt.Errorf("want the %s of one %s, found %d", field, thing, len(args))
	}
}

func (w credentialWords) oneArg() cobra.PositionalArgs {
	return oneArg(w.field, w.word, "patchbay "+w.word+"s list shows the "+w.field+"s")
}

// named returns the name of a new credential, which the flag or the argument gives.
func (w credentialWords) named(flag string, args []string) (string, error) {
	if len(args) == 0 {
		return flag, nil
	}
	if flag != "" && flag != args[0] {
		return "", fmt.Errorf("the %[1]s is given twice: %[2]s, and --%[1]s %[3]s", w.field, args[0], flag)
	}
	return args[0], nil
}

// printText prints the text of a credential that was just made.
func (f *credentialFlags) printText(to io.Writer, w credentialWords, name, text string) error {
	return f.print(to, map[string]string{w.field: name, w.word: text}, "%-*s  %s\n%s  %s\n", len(w.word), w.field, name,
		w.word, text)
}

// newCredentialVerb completes a command that has no flags of its own.
func newCredentialVerb(env []string, cmd *cobra.Command,
	do func(flags *credentialFlags, store *credentialStore, args []string) error) *cobra.Command {
	flags := newCredentialFlags(env)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return flags.at(cmd.Context(), func(store *credentialStore) error { return do(flags, store, args) })
	}
	flags.register(cmd)
	return cmd
}

// newCredentialList completes a command that lists credentials: as a table with a head and
// a row for each, or as JSON.
func newCredentialList[Line any](env []string, stdout io.Writer, w credentialWords, cmd *cobra.Command, head string,
	row func(*Line) []string) *cobra.Command {
	cmd.Use, cmd.Args = "list", cobra.NoArgs
	return newCredentialVerb(env, cmd, func(flags *credentialFlags, store *credentialStore, _ []string) error {
		var lines []Line
		if err := store.ask(store.ctx, http.MethodGet, w.path, nil, &lines); err != nil {
			return err
		}
		if flags.json {
			return writeJSON(stdout, lines)
		}
		table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, head)
		for i := range lines {
			fmt.Fprintln(table, strings.Join(row(&lines[i]), "\t"))
		}
		return table.Flush()
	})
}

// newCredentialEdit completes a command that changes the terms of one credential that was issued.
// patch returns those that the flags give, and terms prints those of the changed credential.
func newCredentialEdit[Line any](env []string, stdout io.Writer, w credentialWords, cmd *cobra.Command,
	patch func(*cobra.Command) (map[string]any, error), terms func(*Line) string) *cobra.Command {
	flags := newCredentialFlags(env)
	cmd.Use, cmd.Args = "edit "+strings.ToUpper(w.field), w.oneArg()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := patch(cmd)
		if err != nil {
			return err
		}
		if len(wanted) == 0 {
			return fmt.Errorf("nothing to change was given; patchbay %ss edit --help names the flags", w.word)
		}
		return flags.at(cmd.Context(), func(store *credentialStore) error {
			var line Line
			if err := store.ask(store.ctx, http.MethodPut, w.path+"/"+url.PathEscape(args[0]), wanted,
				&line); err != nil {
				return err
			}
			return flags.print(stdout, line, "changed %s: %s\n", args[0], terms(&line))
		})
	}
	flags.register(cmd)
	return cmd
}

// sameFlag lets one flag be given by a second name.
func sameFlag(other, name string) func(*pflag.FlagSet, string) pflag.NormalizedName {
	return func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == other {
			given = name
		}
		return pflag.NormalizedName(given)
	}
}

// newCredentialEnable returns the command that makes a credential good that a backup without a
// signature had.
func newCredentialEnable(env []string, stdout io.Writer, w credentialWords) *cobra.Command {
	cmd := &cobra.Command{
		Use: "enable " + strings.ToUpper(w.field), Args: w.oneArg(),
		Short:   "Make a " + w.word + " good that is disabled since a restore of a backup without a signature",
		Example: "  patchbay " + w.word + "s enable ops",
	}
	return newCredentialVerb(env, cmd, func(flags *credentialFlags, store *credentialStore, args []string) error {
		path := w.path + "/" + url.PathEscape(args[0]) + "/enable"
		if err := store.ask(store.ctx, http.MethodPost, path, nil, nil); err != nil {
			return err
		}
		return flags.print(stdout, map[string]any{w.field: args[0], "enabled": true}, "enabled %s\n", args[0])
	})
}

// newCredentialRevoke completes a command that revokes one credential. To revoke it again
// is no error.
func newCredentialRevoke(env []string, stdout io.Writer, w credentialWords, cmd *cobra.Command) *cobra.Command {
	cmd.Use, cmd.Args, cmd.Aliases = "revoke "+strings.ToUpper(w.field), w.oneArg(), []string{"delete", "remove"}
	return newCredentialVerb(env, cmd, func(flags *credentialFlags, store *credentialStore, args []string) error {
		changed, err := store.revoke(w.path, args[0])
		if err != nil {
			return err
		}
		line := "revoked %s\n"
		if !changed {
			line = "%s was revoked already\n"
		}
		return flags.print(stdout, map[string]any{w.field: args[0], "changed": changed}, line, args[0])
	})
}

// newCredentialHash returns the command that prints the hash of a credential's text.
func newCredentialHash(stdout io.Writer, w credentialWords) *cobra.Command {
	flags := new(credentialFlags)
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
			return flags.print(stdout, map[string]string{"sha256": access.HashOf(text)}, "%s\n", access.HashOf(text))
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print JSON")
	return cmd
}
