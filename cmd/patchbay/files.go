// This file belongs to the wing batches.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func newFiles(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "files",
		Short: "List and delete the files of all owners, or of one",
		Long: `Lists and deletes files that clients uploaded, and results of batches, for those who
run a gateway. Clients list and delete their own with /v1/files.

` + remotePlaces,
		Example: `  patchbay files list --tenant acme
  patchbay files delete file-04f2c --token "$TOKEN"
  patchbay files delete --owner-key team-a --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFilesList(env, stdout), newOwnedDelete(env, stdout, ownedThings{
		path: "/api/files", many: "files",
		use: &cobra.Command{
			Short: "Delete files, or all of an owner",
			Long: `Deletes files by their ids, or all of an owner. Files that a batch needs that has not
ended are left.

` + remotePlaces,
			Example: `  patchbay files delete file-04f2c
  patchbay files delete --owner-key team-a --dry-run
  patchbay files delete --tenant acme`,
		},
	}))
	return cmd
}

// fileLine is a file as the gateway shows it.
type fileLine struct {
	ID        string    `json:"id"`
	Filename  string    `json:"filename"`
	Purpose   string    `json:"purpose"`
	Bytes     int64     `json:"bytes"`
	KeyID     string    `json:"keyId,omitzero"`
	Tenant    string    `json:"tenant,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

func newFilesList(env []string, stdout io.Writer) *cobra.Command {
	flags := &ownedFlags{remoteFlags: remoteFlags{settingFlags: settingFlags{env: env}}}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List files, the newest first",
		Long:    "Lists the newest thousand files of all owners, or of one.\n\n" + remotePlaces,
		Example: "  patchbay files list\n  patchbay files list --owner-key team-a --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := []fileLine{}
			if err := flags.ask(cmd.Context(), http.MethodGet, "/api/files", flags.query(), &lines); err != nil {
				return err
			}
			if asJSON {
				return failed(writeJSON(stdout, lines))
			}
			table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "ID\tTENANT\tKEY\tBYTES\tCREATED\tPURPOSE\tNAME")
			for _, l := range lines {
				fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", l.ID, l.Tenant, l.KeyID, l.Bytes,
					l.CreatedAt.Local().Format(time.DateTime), l.Purpose, l.Filename)
			}
			return failed(table.Flush())
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// ownedFlags name a running gateway and an owner of files and batches.
type ownedFlags struct {
	remoteFlags
	tenant, key string
	isKeyless   bool
}

func (f *ownedFlags) register(cmd *cobra.Command) {
	f.remoteFlags.register(cmd)
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "of all keys of a tenant")
	cmd.Flags().StringVar(&f.key, "owner-key", "", "of the API key with this id")
	cmd.Flags().BoolVar(&f.isKeyless, "keyless", false, "of those that were made while no key was needed")
	cmd.MarkFlagsMutuallyExclusive("tenant", "owner-key", "keyless")
}

// isNamed reports whether the flags name an owner.
func (f *ownedFlags) isNamed() bool { return f.tenant != "" || f.key != "" || f.isKeyless }

// query returns the parameters that name the owner.
func (f *ownedFlags) query() url.Values {
	query := url.Values{}
	if f.tenant != "" {
		query.Set("tenant", f.tenant)
	}
	if f.key != "" {
		query.Set("key", f.key)
	}
	if f.isKeyless {
		query.Set("keyless", "true")
	}
	return query
}

// ask asks the gateway that the flags name. Deleting thousands of files takes a while.
func (f *ownedFlags) ask(ctx context.Context, method, path string, query url.Values, data any) error {
	r, err := f.remote()
	if err != nil {
		return err
	}
	r.patience = 5 * time.Minute
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	ctx, cancel := untilSignal(ctx)
	defer cancel()
	return failed(r.ask(ctx, method, path, nil, data))
}

// ownedThings are files or batches.
type ownedThings struct {
	path, many string
	use        *cobra.Command // their purpose
}

// newOwnedDelete returns a verb that deletes files or batches.
func newOwnedDelete(env []string, stdout io.Writer, things ownedThings) *cobra.Command {
	flags := &ownedFlags{remoteFlags: remoteFlags{settingFlags: settingFlags{env: env}}}
	var dryRun bool
	cmd := things.use
	cmd.Use = "delete [ID ...]"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.isNamed() == (len(args) > 0) {
			return &exitError{exitUsage, errors.New("name " + things.many + " by their ids, or one owner with " +
				"--tenant, --owner-key or --keyless")}
		}
		query, verb := flags.query(), "deleted"
		if dryRun {
			query.Set("dryRun", "true")
			verb = "would delete"
		}
		for _, id := range args {
			if err := flags.ask(cmd.Context(), http.MethodDelete, things.path+"/"+url.PathEscape(id), query,
				nil); err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s %s\n", verb, id)
		}
		if len(args) > 0 {
			return nil
		}
		var removed struct {
			Batches int `json:"batches"`
			Files   int `json:"files"`
			InUse   int `json:"inUse"`
		}
		if err := flags.ask(cmd.Context(), http.MethodDelete, things.path, query, &removed); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s %d %s\n", verb, removed.Batches+removed.Files, things.many)
		if removed.InUse > 0 {
			fmt.Fprintf(stdout, "%d are left, because batches need them that have not ended\n", removed.InUse)
		}
		return nil
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "tell what would be deleted, and delete nothing")
	return cmd
}

// newBatchesDelete returns the verb that deletes batches.
func newBatchesDelete(env []string, stdout io.Writer) *cobra.Command {
	return newOwnedDelete(env, stdout, ownedThings{
		path: "/api/batches", many: "batches",
		use: &cobra.Command{
			Short: "Delete batches of any owner, with their results",
			Long: `Deletes batches by their ids, or all of an owner, with their results, for those who run
the gateway. Those that have not ended end, and what was done is lost.

` + remotePlaces,
			Example: `  patchbay batches delete batch_04f2c
  patchbay batches delete --tenant acme --dry-run
  patchbay batches delete --owner-key team-a --token "$TOKEN"`,
		},
	})
}
