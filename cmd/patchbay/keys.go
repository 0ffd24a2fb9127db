package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

func newKeys(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Issue, list and revoke API keys of the unified API",
		Long: `Issues, lists and revokes the API keys with which callers use /v1. Keys are
asked for where security.enabled is true; a key is shown once, and only its hash
is stored.

` + credentialPlaces,
		Example: `  patchbay keys create --tenant acme --service chat --expires 2160h
  patchbay keys list --url http://127.0.0.1:8080
  patchbay keys revoke team-a --url https://gateway.example --token "$TOKEN"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(env, stdout), newKeysList(env, stdout), newKeysRevoke(env, stdout))
	return cmd
}

func newKeysCreate(env []string, stdout io.Writer) *cobra.Command {
	flags := &credentialFlags{settingFlags: settingFlags{env: env}, makes: true}
	var wanted access.Key
	var services []string
	var expires string
	cmd := &cobra.Command{
		Use:     "create",
		Short:   "Issue a key and print it, this once",
		Example: "  patchbay keys create --id team-a --tenant acme --service chat --model llama3 --expires 2030-01-31T00:00:00Z",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if wanted.ExpiresAt, err = expiry(expires, time.Now()); err != nil {
				return err
			}
			for _, name := range services {
				serviceType, err := schema.ParseServiceType(name)
				if err != nil {
					return err
				}
				wanted.Services = append(wanted.Services, serviceType)
			}
			return flags.at(cmd.Context(), func(store credentialStore) error {
				id, text, err := store.issueKey(wanted)
				if err != nil {
					return err
				}
				return flags.print(stdout, map[string]string{"id": id, "key": text}, "id   %s\nkey  %s\n", id, text)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&wanted.ID, "id", "", "name of the key (default: one is made up)")
	cmd.Flags().StringVar(&wanted.Tenant, "tenant", "", "who uses it, for the quota ledger")
	cmd.Flags().StringArrayVar(&services, "service", nil, "service type that it is good for; may be repeated (default: all)")
	cmd.Flags().StringArrayVar(&wanted.Models, "model", nil, "model that it is good for; may be repeated (default: all)")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h")
	return cmd
}

// expiry reads a time, or how long it is until then.
func expiry(text string, now time.Time) (string, error) {
	if after, err := time.ParseDuration(text); err == nil && after > 0 {
		return now.Add(after).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil && text != "" {
		return "", fmt.Errorf("--expires: want a time such as 2030-01-31T00:00:00Z or a duration such as 720h, found %q", text)
	}
	return text, nil
}

func newKeysList(env []string, stdout io.Writer) *cobra.Command {
	flags := &credentialFlags{settingFlags: settingFlags{env: env}}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys, without the keys themselves",
		Example: "  patchbay keys list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.at(cmd.Context(), func(store credentialStore) error {
				lines, err := store.keys()
				if err != nil {
					return err
				}
				if flags.json {
					return flags.print(stdout, lines, "")
				}
				table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "ID\tTENANT\tSTATUS\tSOURCE\tEXPIRES\tSERVICES\tMODELS")
				for _, l := range lines {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%v\t%v\n", l.ID, l.Tenant, l.Status, l.Source, l.ExpiresAt, l.Services, l.Models)
				}
				return table.Flush()
			})
		},
	}
	flags.register(cmd)
	return cmd
}

func newKeysRevoke(env []string, stdout io.Writer) *cobra.Command {
	flags := &credentialFlags{settingFlags: settingFlags{env: env}}
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Make a key useless",
		Example: "  patchbay keys revoke team-a",
		Args:    oneArg("id", "key", "patchbay keys list shows the ids"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.at(cmd.Context(), func(store credentialStore) error {
				changed, err := store.revokeKey(args[0])
				if err != nil {
					return err
				}
				return flags.print(stdout, map[string]any{"id": args[0], "changed": changed}, revokedLine(changed), args[0])
			})
		},
	}
	flags.register(cmd)
	return cmd
}
