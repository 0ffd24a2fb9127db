package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// tokenLine is one token in a list.
type tokenLine struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	ExpiresAt string `json:"expiresAt"`
	Status    string `json:"status"`
	Source    string `json:"source"`
}

func newTokens(env []string) *cobra.Command {
	words := credentials{"token", "name", "/api/auth/tokens"}
	terms := []flag{
		{"role", "role", "", "what it is good for: ADMIN, OPERATOR or VIEWER", func(values []string) (any, error) {
			var role access.Role
			if err := role.UnmarshalText([]byte(values[0])); err != nil {
				return nil, fmt.Errorf("--role: %w", err)
			}
			return role, nil
		}},
		expiry(),
	}
	return newCredentials(env, words, remoteVerb{
		use:   "tokens",
		short: "Issue, list, change, rotate and revoke management tokens",
		long: `Issues, lists, changes, rotates and revokes the tokens with which people and
programs manage the gateway (/api, /actuator). Tokens are asked for where
security.enabled is true; a token is shown once, and only its hash is stored.

` + credentialPlaces,
		example: `  patchbay tokens create --name ops --role ADMIN
  patchbay tokens edit ops --role OPERATOR --expires 720h
  patchbay tokens rotate ops --url https://gateway.example --token "$TOKEN"
  printf %s "$SECRET" | patchbay tokens hash`,
	}, remoteVerb{
		short:   "Issue a token and print it, this once",
		example: "  patchbay tokens create ci --role OPERATOR --expires 720h",
		flags: append([]flag{{"name", "name", "",
			"name of the token, in place of NAME; also --id (default: one is made up)", nil}}, terms...),
		setup: func(cmd *cobra.Command) {
			sameFlag("id", "name")(cmd)
			_ = cmd.MarkFlagRequired("role") // the flag is there
		},
	}, remoteVerb{
		short:   "List the tokens, without the tokens themselves",
		example: "  patchbay tokens list --json",
		prints: table("NAME\tROLE\tSTATUS\tSOURCE\tEXPIRES", func(l *tokenLine) []string {
			return []string{l.Name, l.Role, l.Status, l.Source, l.ExpiresAt}
		}),
	}, remoteVerb{
		short: "Change what is given of a token that was issued; requests from then on are held to it",
		example: `  patchbay tokens edit ops --role VIEWER
  patchbay tokens edit ops --expires ""    # never ends`,
		flags: terms,
		prints: changed(func(l *tokenLine) string {
			return "role=" + l.Role + " expires=" + cmp.Or(l.ExpiresAt, "never")
		}),
	}, remoteVerb{
		short:   "Give a token a new text and print it, this once; the old one is refused from then on",
		example: "  patchbay tokens rotate ops",
		prints:  reply(words.printText),
	}, remoteVerb{
		short:   "Make a token useless, also one of the configuration file",
		example: "  patchbay tokens revoke ops",
	})
}
