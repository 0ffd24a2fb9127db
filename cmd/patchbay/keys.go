package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

func newKeys(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Issue, list, change, rotate and revoke API keys of the unified API",
		Long: `Issues, lists, changes, rotates and revokes the API keys with which callers use
/v1. Keys are asked for where security.enabled is true; a key is shown once, and
only its hash is stored.

` + credentialPlaces,
		Example: `  patchbay keys create --tenant acme --service chat --expires 2160h --budget month.cost=500
  patchbay keys list --url http://127.0.0.1:8080
  patchbay keys edit team-a --requests-per-minute 600 --url https://gateway.example --token "$TOKEN"
  patchbay keys revoke team-a --url https://gateway.example --token "$TOKEN"
  printf %s "$SECRET" | patchbay keys hash`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(env, stdout), newKeysList(env, stdout), newKeysEdit(env, stdout),
		newKeysRotate(env, stdout), newCredentialEnable(env, stdout, keyWords), newKeysRevoke(env, stdout),
		newCredentialHash(stdout, keyWords))
	return cmd
}

func newKeysCreate(env []string, stdout io.Writer) *cobra.Command {
	flags := newCredentialFlags(env)
	flags.makes = true
	var terms termFlags
	var id string
	cmd := &cobra.Command{
		Use:     "create [ID]",
		Aliases: []string{"issue"},
		Short:   "Issue a key and print it, this once",
		Example: `  patchbay keys create team-a --tenant acme --service chat --model 'llama*' ` +
			"--expires 2030-01-31T00:00:00Z\n" +
			"  patchbay keys create --id batch --requests-per-minute 60 --tokens-per-minute 100000 " +
			"--budget month.cost=500 --budget day.tokens=2000000\n" +
			"  patchbay keys create --id office --address 10.0.0.0/8 --address 2001:db8::/32 --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := terms.patch(cmd, time.Now())
			if err != nil {
				return err
			}
			if wanted["id"], err = keyWords.named(id, args); err != nil {
				return err
			}
			return flags.at(cmd.Context(), func(store *credentialStore) error {
				made, err := store.makeText(keyWords.path, wanted)
				if err != nil {
					return err
				}
				return flags.printText(stdout, keyWords, made.ID, made.Key)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&id, "id", "", "name of the key, in place of ID; also --name (default: one is made up)")
	cmd.Flags().SetNormalizeFunc(sameFlag("name", "id"))
	terms.register(cmd)
	return cmd
}

func newKeysEdit(env []string, stdout io.Writer) *cobra.Command {
	var terms termFlags
	cmd := newCredentialEdit(env, stdout, keyWords, &cobra.Command{
		Short: "Change what is given of a key that was issued; requests from then on are held to it",
		Example: `  patchbay keys edit team-a --requests-per-minute 600 --budget month.cost=750
  patchbay keys edit team-a --model "" --expires ""         # all models, never ends
  patchbay keys edit team-a --budget day.tokens=0 --json    # as security.defaults says`,
	}, func(cmd *cobra.Command) (map[string]any, error) { return terms.patch(cmd, time.Now()) }, (*keyLine).terms)
	terms.register(cmd)
	return cmd
}

func newKeysRotate(env []string, stdout io.Writer) *cobra.Command {
	flags := newCredentialFlags(env)
	overlap := 24 * time.Hour
	cmd := &cobra.Command{
		Use:     "rotate ID",
		Short:   "Give a key a new text and print it, this once; the old one stays good for a while",
		Example: "  patchbay keys rotate team-a --overlap 1h",
		Args:    keyWords.oneArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap < 0 || overlap > 90*24*time.Hour {
				return errors.New("--overlap: want a time from 0 to 90 days (2160h)")
			}
			return flags.at(cmd.Context(), func(store *credentialStore) error {
				made, err := store.makeText(keyWords.path+"/"+url.PathEscape(args[0])+"/rotate",
					map[string]any{"overlap": overlap.String()})
				if err != nil {
					return err
				}
				until := made.PreviousUntil
				shown := map[string]any{"id": args[0], "key": made.Key}
				old := "the old text is refused from now on"
				if !until.IsZero() {
					shown["previousUntil"] = until
					old = "the old text is good until " + until.Format(time.RFC3339)
				}
				return flags.print(stdout, shown, "id   %s\nkey  %s\n%s\n", args[0], made.Key, old)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().DurationVar(&overlap, "overlap", overlap,
		"how long the old text stays good, at most 2160h; 0 ends it at once")
	return cmd
}

// expiry reads a time, or how long it is until then.
func expiry(text string, now time.Time) (string, error) {
	if after, err := time.ParseDuration(text); err == nil && after > 0 {
		return now.Add(after).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil && text != "" {
		return "", fmt.Errorf("--expires: want a time such as 2030-01-31T00:00:00Z or a duration such as 720h, found "+
			"%q", text)
	}
	return text, nil
}

func newKeysList(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{Short: "List the keys, without the keys themselves", Example: "  patchbay keys list"}
	return newCredentialList(env, stdout, keyWords, cmd, "ID\tTENANT\tSTATUS\tSOURCE\tEXPIRES\tTERMS",
		func(l *keyLine) []string {
			return []string{l.ID, l.Tenant, l.Status, l.Source, l.ExpiresAt, l.terms()}
		})
}

func newKeysRevoke(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{Short: "Make a key useless", Example: "  patchbay keys revoke team-a"}
	return newCredentialRevoke(env, stdout, keyWords, cmd)
}
