package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/backup"
)

// backupFlags name the place and the parts of a backup.
type backupFlags struct {
	placeFlags
	// left is the database that --data-dir leaves out.
	left string
	with []string
	// force, unsigned and confirm are choices of a restore.
	force, unsigned, confirm bool
	// doc is the configuration of the place.
	doc *config.Document
}

func newBackup(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &backupFlags{placeFlags: placeFlags{settingFlags: settingFlags{env: env}}}
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write configuration, keys and tokens to one file, while the gateway runs",
		Long: `Writes the configuration with all versions, keys and tokens to a zip file that
patchbay restore reads, and with --with also the ledger with the budgets, files, and batches
(with their files). The place is the one of the configuration that serve would run with, or
the one of --data-dir or --database. The gateway may run.

FILE appears whole or not at all, and only its owner may read it; - is the standard output.
With a master key the backup is signed, and secrets and files in it are encrypted; the key
is needed to restore it. Keep a copy of the key elsewhere.`,
		Example: `  patchbay backup patchbay.zip
  patchbay backup /backups/monday.zip --config /etc/patchbay/patchbay.yaml --with ledger,files,batches
  patchbay backup - | ssh backups 'cat > patchbay.zip'
  patchbay backup cluster.zip --database postgres://patchbay@db/patchbay --with ledger`,
		Args: oneBackup,
		RunE: func(cmd *cobra.Command, args []string) error {
			place, options, err := flags.place(stderr)
			if err != nil {
				return err
			}
			if flags.dataDir != "" && flags.left != "" {
				fmt.Fprint(stderr, "warning: --data-dir leaves out store.config of the configuration, the "+
					"database in which gateways share versions, keys and tokens; without --data-dir it is backed up\n")
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			var done backup.Summary
			said := stdout
			if args[0] == "-" {
				said = stderr
				done, err = backup.WriteTo(ctx, place, stdout, options)
			} else {
				done, err = backup.Write(ctx, place, args[0], options)
			}
			if err != nil {
				return failed(fmt.Errorf("no backup was written: %w", err))
			}
			fmt.Fprintf(said, "wrote %s: %s\n", args[0], describeBackup(&done))
			tellNotes(said, &done)
			if done.Missing+done.Damaged > 0 {
				fmt.Fprintf(said, "left out: %d files that were deleted meanwhile, %d files or batches with damaged "+
					"descriptions\n", done.Missing, done.Damaged)
			}
			return nil
		},
	}
	flags.register(cmd, "to back up beside configuration, keys and tokens: ledger, files, batches")
	return cmd
}

func newRestore(env []string, stdout, stderr io.Writer) *cobra.Command {
	flags := &backupFlags{placeFlags: placeFlags{settingFlags: settingFlags{env: env}}}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Bring a backup back to a data directory or to PostgreSQL",
		Long: `Brings back a file of patchbay backup, or a download of
GET /api/config/backup?secrets=true, to the place of the configuration that serve would run
with, or of --data-dir or --database. It need not be the place that the backup is of: a
backup of a data directory can be restored to PostgreSQL, and the other way round.

The gateways must be stopped. A place that is not empty needs --force; the files that
were there stay in a folder replaced-TIME. After an error everything is as it was. The
master key of the backup is needed. At the next start the version of the backup is in force,
whatever services the configuration file has; later edits of the file are applied as always.

If there is a master key, a file that is not signed with it is refused. --unsigned restores
it with all keys and tokens disabled and no secret of a backend in use, until --confirm, with
the same place, enables everything; with FILE only if that was restored last. Or make an ADMIN
(patchbay tokens create --role ADMIN), who enables or rotates each key and gives each secret
again.

What the backup or the place knows as revoked stays so. Keys and tokens that were revoked
elsewhere after the backup are good again: revoke them once more. Everybody signs in to the
console again.`,
		Example: `  patchbay restore patchbay.zip --data-dir ./data
  patchbay restore patchbay.zip --config /etc/patchbay/patchbay.yaml --force
  patchbay restore patchbay.zip --database postgres://patchbay@db/patchbay
  patchbay restore --confirm patchbay.zip --data-dir ./data`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.confirm {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return oneBackup(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			place, options, err := flags.place(stderr)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if flags.confirm {
				done, err := backup.Confirm(ctx, place, strings.Join(args, ""),
					flags.recording(ctx, "restore --confirm", enabled))
				if err != nil {
					return failed(fmt.Errorf("nothing was confirmed, or not all of it: %w", err))
				}
				fmt.Fprintf(stdout, "enabled in %s: %s\n", place, enabled(&done))
				return nil
			}
			options.Record = flags.recording(ctx, "restore", func(s *backup.Summary) string {
				return describeBackup(s) + ", " + say.Counted(s.Documents, "document")
			})
			done, err := backup.Restore(ctx, place, args[0], options)
			if err != nil {
				return failed(fmt.Errorf("nothing was restored: %w", err))
			}
			fmt.Fprintf(stdout, "restored to %s: %s\n", place, describeBackup(&done))
			tellNotes(stdout, &done)
			if done.IsDisabled {
				fmt.Fprintln(stdout, "its keys and tokens are disabled and its secrets are not in use: see what is "+
					"in it, then run patchbay restore --confirm for the same place, or let a new ADMIN enable each")
			}
			for _, folder := range done.Replaced {
				fmt.Fprintf(stdout, "the files that were there before are in %s; delete it when all is well\n", folder)
			}
			since := "since the backup was made"
			if !done.Made.IsZero() {
				since = "since " + done.Made.Format("2006-01-02 15:04:05 UTC")
			}
			fmt.Fprintf(stdout, "what was revoked here or in the backup stays so; keys and tokens that were revoked "+
				"elsewhere %s are good again: revoke them once more. Everybody signs in to the console again.\n", since)
			return nil
		},
	}
	flags.register(cmd, "to restore: ledger, files, batches (default all that the backup has)")
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace what is there")
	cmd.Flags().BoolVar(&flags.unsigned, "unsigned", false,
		"restore a file without the signature of the master key, with its keys, tokens and secrets disabled")
	cmd.Flags().BoolVar(&flags.confirm, "confirm", false, "enable what --unsigned has restored")
	cmd.MarkFlagsMutuallyExclusive("confirm", "unsigned")
	return cmd
}

func oneBackup(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("name one file, such as patchbay.zip")
	}
	return nil
}

func (f *backupFlags) register(cmd *cobra.Command, with string) {
	f.placeFlags.register(cmd)
	cmd.Flags().StringSliceVar(&f.with, "with", nil, "parts "+with)
}

// place returns where the gateway of the configuration keeps its data, and the choices. The flags
// --data-dir and --database stand for the whole place.
func (f *backupFlags) place(stderr io.Writer) (*backup.Place, backup.Options, error) {
	const quick = 2 * time.Second // between two lines about progress
	last := time.Now()
	tell := func(format string, args ...any) {
		if time.Since(last) > quick {
			last = time.Now()
			fmt.Fprintf(stderr, format+" ...\n", args...)
		}
	}
	options := backup.Options{Force: f.force, Unsigned: f.unsigned, Program: version, Tell: tell}
	var err error
	if options.With, err = backup.ParseParts(f.with); err != nil {
		return nil, options, fmt.Errorf("--with: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, options, err
	}
	loaded, err := f.load()
	if err != nil {
		return nil, options, err
	}
	store := &loaded.Document.Store
	switch {
	case f.database != "":
		store.Config = f.database
		if sqlstore.CheckServer(store.URL) != nil {
			store.URL = f.database
		}
	case f.dataDir != "":
		f.left, store.Config = store.Config, ""
	}
	f.doc = loaded.Document
	place, err := backup.PlaceOf(f.doc, gateway.Kept())
	if err != nil {
		return nil, options, &exitError{exitConfig, err}
	}
	return place, options, nil
}

// describeBackup counts the content of a backup in words.
func describeBackup(s *backup.Summary) string {
	parts := []string{
		fmt.Sprintf("%s (%d in force)", say.Counted(s.Versions, "version"), s.Current),
		say.Counted(s.Keys, "issued key"),
		say.Counted(s.Tokens, "issued token"),
	}
	for _, part := range s.With {
		switch part {
		case store.Ledger:
			parts = append(parts, say.Counted(s.Rows, "row")+" of the ledger")
		case store.Files:
			parts = append(parts, fmt.Sprintf("%s (%d bytes)", say.Counted(s.Files, "file"), s.Bytes))
		case store.Batches:
			parts = append(parts, strings.Replace(say.Counted(s.Batches, "batch"), "batchs", "batches", 1))
		}
	}
	parts = append(parts, "NOT signed")
	if s.IsSigned {
		parts[len(parts)-1] = "signed"
	}
	return strings.Join(parts, ", ")
}

// enabled counts what a confirmation enables in words.
func enabled(s *backup.Summary) string {
	return fmt.Sprintf("%s, %s, %s, %s", say.Counted(s.Versions, "version"), say.Counted(s.Keys, "issued key"),
		say.Counted(s.Tokens, "issued token"), say.Counted(s.Documents, "document"))
}

// recording returns how an operation is noted in the audit of the place.
func (f *backupFlags) recording(ctx context.Context, action string, describe func(*backup.Summary) string,
) backup.Record {
	return func(done *backup.Summary) (func(error), error) {
		act := web.Act{Began: time.Now(), Who: "command line", Role: access.Admin.String(), Action: action}
		object := func() string { return "backup with SHA-256 " + done.SHA256 + ": " + describe(done) }
		data := durable.At(f.doc.Server.DataDir)
		if err := data.Make(); err != nil {
			return nil, err
		}
		trail, end, err := offlineTrail(f.doc, data)
		if err != nil {
			return nil, err
		}
		if trail == nil {
			return func(error) {}, nil
		}
		act.Object = object()
		id, err := trail.Begin(ctx, act)
		if err != nil {
			end()
			return nil, fmt.Errorf("the audit cannot record it: %w", err)
		}
		return func(err error) {
			if act.Object, act.Result = object(), "done"; err != nil {
				act.Result = "failed"
			}
			trail.End(context.WithoutCancel(ctx), id, act)
			end()
		}, nil
	}
}

func tellNotes(to io.Writer, s *backup.Summary) {
	for _, note := range s.Notes {
		fmt.Fprintf(to, "left out: %s\n", note)
	}
}
