package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
)

func newKeys(env []string) *cobra.Command {
	words := credentials{"key", "id", "/api/auth/keys"}
	return newCredentials(env, words, remoteVerb{
		use:   "keys",
		short: "Issue, list, change, rotate and revoke API keys of the unified API",
		long: `Issues, lists, changes, rotates and revokes the API keys with which callers use
/v1. Keys are asked for where security.enabled is true; a key is shown once, and
only its hash is stored.

` + credentialPlaces,
		example: `  patchbay keys create --tenant acme --service chat --expires 2160h --budget month.cost=500
  patchbay keys list --url http://127.0.0.1:8080
  patchbay keys edit team-a --requests-per-minute 600 --url https://gateway.example --token "$TOKEN"
  patchbay keys revoke team-a --url https://gateway.example --token "$TOKEN"
  printf %s "$SECRET" | patchbay keys hash`,
	}, remoteVerb{
		short: "Issue a key and print it, this once",
		example: `  patchbay keys create team-a --tenant acme --service chat --model 'llama*' ` +
			"--expires 2030-01-31T00:00:00Z\n" +
			"  patchbay keys create --id batch --requests-per-minute 60 --tokens-per-minute 100000 " +
			"--budget month.cost=500 --budget day.tokens=2000000\n" +
			"  patchbay keys create --id office --address 10.0.0.0/8 --address 2001:db8::/32 --json",
		flags: append(keyTerms(), flag{"id", "id", "",
			"name of the key, in place of ID; also --name (default: one is made up)", nil}),
		setup: sameFlag("name", "id"),
	}, remoteVerb{
		short:   "List the keys, without the keys themselves",
		example: "  patchbay keys list",
		prints: table("ID\tTENANT\tSTATUS\tSOURCE\tEXPIRES\tTERMS", func(l *keyLine) []string {
			return []string{l.ID, l.Tenant, l.Status, l.Source, l.ExpiresAt, l.terms()}
		}),
	}, remoteVerb{
		short: "Change what is given of a key that was issued; requests from then on are held to it",
		example: `  patchbay keys edit team-a --requests-per-minute 600 --budget month.cost=750
  patchbay keys edit team-a --model "" --expires ""         # all models, never ends
  patchbay keys edit team-a --budget day.tokens=0 --json    # as security.defaults says`,
		flags:  keyTerms(),
		prints: changed((*keyLine).terms),
	}, remoteVerb{
		short:   "Give a key a new text and print it, this once; the old one stays good for a while",
		example: "  patchbay keys rotate team-a --overlap 1h",
		flags: []flag{{"overlap", "overlap", 24 * time.Hour,
			"how long the old text stays good, at most 2160h; 0 ends it at once", func(values []string) (any, error) {
				if overlap, _ := time.ParseDuration(values[0]); overlap < 0 || overlap > 90*24*time.Hour {
					return nil, errors.New("--overlap: want a time from 0 to 90 days (2160h)")
				}
				return values[0], nil
			}}},
		prints: reply(func(a *asking, made *struct {
			Key   string    `json:"key"`
			Until time.Time `json:"previousUntil"`
		}) error {
			old := "the old text is refused from now on"
			shown := map[string]any{"id": a.args[0], "key": made.Key}
			if !made.Until.IsZero() {
				shown["previousUntil"] = made.Until
				old = "the old text is good until " + made.Until.Format(time.RFC3339)
			}
			return a.printf(shown, "id   %s\nkey  %s\n%s\n", a.args[0], made.Key, old)
		}),
	}, remoteVerb{short: "Make a key useless", example: "  patchbay keys revoke team-a"})
}
