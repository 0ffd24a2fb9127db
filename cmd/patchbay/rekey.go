package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/wings/backup"
)

func newRekey(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &backupFlags{placeFlags: placeFlags{settingFlags: settingFlags{env: env}}}
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Sign and encrypt the stored data with a new master key",
		Long: `Signs and encrypts everything that is stored with security.master-key, in place of
security.previous-master-key or, if that is empty, for the first time: versions, keys and tokens,
sessions, files of clients and results of batches, calls, and what is in Redis. The place is
the one of the configuration that serve would run with, or of --data-dir or --database. With
store.config that is the database and the data directory of this gateway; the other gateways'
data directories follow, one after the other, or are emptied.

Stop the gateways first. Until rekey has finished, serve refuses the place. Run again, it
finishes one that was killed. Data that neither key has signed stays as it is and is named,
and rekey fails. Everybody signs in to the console again.`,
		Example: `  PATCHBAY_SECURITY_MASTER_KEY=$NEW patchbay rekey
  PATCHBAY_SECURITY_PREVIOUS_MASTER_KEY=$OLD PATCHBAY_SECURITY_MASTER_KEY=$NEW patchbay rekey
  patchbay rekey --data-dir ./data --set 'security.master-key=${NEW}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, options, err := flags.place(stderr)
			if err != nil {
				return err
			}
			if flags.database != "" {
				place.DataDir = ""
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			done, err := backup.Rekey(ctx, place, options)
			for _, name := range slices.Sorted(maps.Keys(done.Kinds)) {
				fmt.Fprintf(stdout, "%s: %d\n", name, done.Kinds[name])
			}
			if err != nil {
				return startFailure(fmt.Errorf("the data is not all signed with the new master key: %w", err))
			}
			if len(done.Places) > 0 {
				fmt.Fprintf(stdout, "signed with the master key %s: %s\n", place.Keys.ID(),
					strings.Join(done.Places, ", "))
			}
			if len(done.Left) > 0 {
				fmt.Fprintf(stdout, "not signed, because a restore replaced it; delete it if nobody needs it: %s\n",
					strings.Join(done.Left, ", "))
			}
			if len(done.Before) > 0 {
				fmt.Fprintf(stdout, "was signed with it before: %s\n", strings.Join(done.Before, ", "))
			}
			return nil
		},
	}
	flags.placeFlags.register(cmd)
	return cmd
}
