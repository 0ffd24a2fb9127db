package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

func newTokens(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Issue, list, rotate and revoke management tokens",
		Long: `Issues, lists, rotates and revokes the tokens with which people and programs
manage the gateway (/api, /actuator). Tokens are asked for where security.enabled
is true; a token is shown once, and only its hash is stored.

` + credentialPlaces,
		Example: `  patchbay tokens issue --name ops --role ADMIN
  patchbay tokens rotate ops --url https://gateway.example --token "$TOKEN"
  printf %s "$SECRET" | patchbay tokens hash`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokensIssue(env, stdout), newTokensList(env, stdout), newTokensRotate(env, stdout),
		newTokensRevoke(env, stdout), newTokensHash(stdout))
	return cmd
}

func newTokensIssue(env []string, stdout io.Writer) *cobra.Command {
	flags := newCredentialFlags(env)
	flags.makes = true
	var wanted access.IssuedToken
	var role, expires string
	cmd := &cobra.Command{
		Use:     "issue",
		Short:   "Issue a token and print it, this once",
		Example: "  patchbay tokens issue --name ci --role OPERATOR --expires 720h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wanted.Role.UnmarshalText([]byte(role)); err != nil {
				return fmt.Errorf("--role: %w", err)
			}
			var err error
			if wanted.ExpiresAt, err = expiry(expires, time.Now()); err != nil {
				return err
			}
			return flags.at(cmd.Context(), func(store *credentialStore) error {
				asks := map[string]any{"name": wanted.Name, "role": wanted.Role, "expiresAt": wanted.ExpiresAt}
				made, err := store.makeText(tokenWords.path, asks)
				if err != nil {
					return err
				}
				return flags.printText(stdout, tokenWords, made.Name, made.Token)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&wanted.Name, "name", "",
		"name of the token, for lists and the audit log (default: one is made up)")
	cmd.Flags().StringVar(&role, "role", "", "what it is good for: ADMIN, OPERATOR or VIEWER")
	cmd.Flags().StringVar(&expires, "expires", "",
		"when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h")
	_ = cmd.MarkFlagRequired("role") // the flag is there
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

func newTokensHash(stdout io.Writer) *cobra.Command {
	flags := new(credentialFlags)
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of a token or key that is read from standard input",
		Long: `Reads a token or key of your own from standard input, one line, and prints its
SHA-256 as security.tokens[].token-sha256 and security.keys[].key-sha256 take it.
A line break at the end does not count.`,
		Example: `  openssl rand -hex 32 | tee token.txt | patchbay tokens hash`,
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
