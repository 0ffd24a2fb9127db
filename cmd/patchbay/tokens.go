package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func newTokens(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Issue, list, change, rotate and revoke management tokens",
		Long: `Issues, lists, changes, rotates and revokes the tokens with which people and
programs manage the gateway (/api, /actuator). Tokens are asked for where
security.enabled is true; a token is shown once, and only its hash is stored.

` + credentialPlaces,
		Example: `  patchbay tokens create --name ops --role ADMIN
  patchbay tokens edit ops --role OPERATOR --expires 720h
  patchbay tokens rotate ops --url https://gateway.example --token "$TOKEN"
  printf %s "$SECRET" | patchbay tokens hash`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokensCreate(env, stdout), newTokensList(env, stdout), newTokensEdit(env, stdout),
		newTokensRotate(env, stdout), newCredentialEnable(env, stdout, tokenWords),
		newTokensRevoke(env, stdout), newCredentialHash(stdout, tokenWords))
	return cmd
}

// tokenFlags are the terms of a token, as flags of its creation and its edit.
type tokenFlags struct{ role, expires string }

func (f *tokenFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.role, "role", "", "what it is good for: ADMIN, OPERATOR or VIEWER")
	cmd.Flags().StringVar(&f.expires, "expires", "",
		"when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h")
}

// patch returns the given terms in the form of the management API.
func (f *tokenFlags) patch(cmd *cobra.Command) (map[string]any, error) {
	said := map[string]any{}
	if cmd.Flags().Changed("role") {
		var role access.Role
		if err := role.UnmarshalText([]byte(f.role)); err != nil {
			return nil, fmt.Errorf("--role: %w", err)
		}
		said["role"] = role
	}
	expires, err := expiry(f.expires, time.Now())
	if cmd.Flags().Changed("expires") {
		said["expiresAt"] = expires
	}
	return said, err
}

func newTokensCreate(env []string, stdout io.Writer) *cobra.Command {
	flags := newCredentialFlags(env)
	flags.makes = true
	var terms tokenFlags
	var name string
	cmd := &cobra.Command{
		Use:     "create [NAME]",
		Aliases: []string{"issue"},
		Short:   "Issue a token and print it, this once",
		Example: "  patchbay tokens create ci --role OPERATOR --expires 720h",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := terms.patch(cmd)
			if err != nil {
				return err
			}
			if wanted["name"], err = tokenWords.named(name, args); err != nil {
				return err
			}
			return flags.at(cmd.Context(), func(store *credentialStore) error {
				made, err := store.makeText(tokenWords.path, wanted)
				if err != nil {
					return err
				}
				return flags.printText(stdout, tokenWords, made.Name, made.Token)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&name, "name", "",
		"name of the token, in place of NAME; also --id (default: one is made up)")
	cmd.Flags().SetNormalizeFunc(sameFlag("id", "name"))
	terms.register(cmd)
	_ = cmd.MarkFlagRequired("role") // the flag is there
	return cmd
}

func newTokensEdit(env []string, stdout io.Writer) *cobra.Command {
	var terms tokenFlags
	cmd := newCredentialEdit(env, stdout, tokenWords, &cobra.Command{
		Short: "Change what is given of a token that was issued; requests from then on are held to it",
		Example: `  patchbay tokens edit ops --role VIEWER
  patchbay tokens edit ops --expires ""    # never ends`,
	}, terms.patch, func(l *tokenLine) string {
		return "role=" + l.Role.String() + " expires=" + cmp.Or(l.ExpiresAt, "never")
	})
	terms.register(cmd)
	return cmd
}

func newTokensList(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{Short: "List the tokens, without the tokens themselves",
		Example: "  patchbay tokens list --json"}
	return newCredentialList(env, stdout, tokenWords, cmd, "NAME\tROLE\tSTATUS\tSOURCE\tEXPIRES",
		func(l *tokenLine) []string {
			return []string{l.Name, l.Role.String(), l.Status, l.Source, l.ExpiresAt}
		})
}

func newTokensRotate(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rotate NAME",
		Short:   "Give a token a new text and print it, this once; the old one is refused from then on",
		Example: "  patchbay tokens rotate ops",
		Args:    tokenWords.oneArg(),
	}
	return newCredentialVerb(env, cmd, func(flags *credentialFlags, store *credentialStore, args []string) error {
		made, err := store.makeText(tokenWords.path+"/"+url.PathEscape(args[0])+"/rotate", nil)
		if err != nil {
			return err
		}
		return flags.printText(stdout, tokenWords, args[0], made.Token)
	})
}

func newTokensRevoke(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{Short: "Make a token useless, also one of the configuration file",
		Example: "  patchbay tokens revoke ops"}
	return newCredentialRevoke(env, stdout, tokenWords, cmd)
}
