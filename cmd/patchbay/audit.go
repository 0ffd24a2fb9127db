package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/managedaudit"
)

func newAudit(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify and export the records of who did what, and rotate the key that signs them",
		Long: `Verifies and exports the records of the audit: who did what, when, from where and with
which result. Each record holds the hash of the one before, and signed heads tell which
records a chain had.`,
		Example: `  patchbay audit verify
  patchbay audit verify audit.jsonl --head 5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592
  patchbay audit export > audit.jsonl
  patchbay audit rotate-key --url https://gateway.example --token "$TOKEN"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditVerify(env, stdout), newAuditExport(env, stdout), newAuditRotate(env))
	return cmd
}

// auditPlace names where records are: the place of a configuration, a data directory or a
// database.
type auditPlace struct{ placeFlags }

// store returns the store of the records. A data directory may be one that a gateway uses.
func (p *auditPlace) store() (audit.Store, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	database, dir := p.database, p.dataDir
	if database == "" && dir == "" {
		loaded, err := p.load()
		if err != nil {
			return nil, err
		}
		database, dir = loaded.Document.Store.Config, loaded.Document.Server.DataDir
	}
	if database == "" {
		if _, err := os.Stat(dir); err != nil {
			return nil, failed(fmt.Errorf("there is no data directory at %s", dir))
		}
	}
	store, err := managedaudit.StoreOf(database, dir)
	return store, failed(err)
}

func newAuditVerify(env []string, stdout io.Writer) *cobra.Command {
	place := &auditPlace{placeFlags{settingFlags: settingFlags{env: env}}}
	var head, key string
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify that no record was changed, removed or moved",
		Long: `Verifies the records of the place of the configuration that serve would run with, of
--data-dir or --database, or those of a FILE of JSON lines. The gateway may run. It exits
with 0 if all records hold, else with 1 and the seq of the first one that does not.

Heads that the gateway has signed are verified with the public keys beside them, or with
those of --key: a copy of GET /api/audit/keys that you keep elsewhere. --head is the hash
of a head that you know from the log: a record must have it. Records behind the last known
head may be missing without a trace.`,
		Example: `  patchbay audit verify
  patchbay audit verify --data-dir /var/lib/patchbay --key keys.json
  patchbay audit verify --database postgres://patchbay@db/patchbay
  patchbay audit verify audit.jsonl --head 5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var hashes []string
			if head != "" {
				hashes = append(hashes, head)
			}
			var keys []audit.PublicKey
			if key != "" {
				text, err := os.ReadFile(key)
				if err == nil {
					keys, err = audit.ReadKeys(text)
				}
				if err != nil {
					return failed(fmt.Errorf("--key: %w", err))
				}
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if len(args) > 0 {
				if place.dataDir != "" || place.database != "" {
					return errors.New("name a FILE, --data-dir or --database, not two of them")
				}
				chains, err := audit.VerifyFile(ctx, args[0], keys, hashes...)
				return tellVerified(stdout, chains, err)
			}
			store, err := place.store()
			if err != nil {
				return err
			}
			defer store.Close()
			chains, err := audit.Verify(ctx, store, keys, hashes...)
			return tellVerified(stdout, chains, err)
		},
	}
	place.register(cmd)
	cmd.Flags().StringVar(&head, "head", "", "hash of a head that is known from elsewhere")
	cmd.Flags().StringVar(&key, "key", "", "file of public keys: JSON of GET /api/audit/keys, PEM, or base64")
	return cmd
}

// tellVerified prints the chains that hold, and returns the error about one that does not.
func tellVerified(stdout io.Writer, chains []audit.VerifiedChain, err error) error {
	if err != nil {
		return failed(err)
	}
	if len(chains) == 0 {
		fmt.Fprintln(stdout, "there are no records")
	}
	for _, c := range chains {
		signed := "no signed head covers them"
		if c.Signed > 0 {
			signed = fmt.Sprintf("the last signed head is of seq %d, %s", c.Signed, c.SignedAt)
		}
		fmt.Fprintf(stdout, "gateway %s, chain %d: the records from seq %d to %d hold; %s\n", c.Gateway, c.Chain,
			c.First, c.Last, signed)
	}
	return nil
}

func newAuditExport(env []string, stdout io.Writer) *cobra.Command {
	place := &auditPlace{placeFlags{settingFlags: settingFlags{env: env}}}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all records as JSON lines, the oldest first",
		Long: `Prints all records of the place of the configuration that serve would run with, or of
--data-dir or --database, as JSON lines: chain by chain, the oldest first. The gateway may
run. patchbay audit verify reads such a file.`,
		Example: `  patchbay audit export > audit.jsonl
  patchbay audit export --database postgres://patchbay@db/patchbay | gzip > audit.jsonl.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := place.store()
			if err != nil {
				return err
			}
			defer store.Close()
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			to := bufio.NewWriter(stdout)
			err = store.Each(ctx, func(_ int, line []byte) error {
				_, err := to.Write(append(line, '\n'))
				return err
			})
			return failed(errors.Join(err, to.Flush()))
		},
	}
	place.register(cmd)
	return cmd
}

func newAuditRotate(env []string) *cobra.Command {
	rotate := remoteVerb{
		use: "rotate-key", asks: "POST /api/audit/rotate-key", isPlain: true,
		short: "Let another key sign the heads of a running gateway",
		long: `Makes a new key that signs the heads of a running gateway from now on. The key before
signs one last head, and its public half stays at GET /api/audit/keys.

` + remotePlaces,
		example: `  patchbay audit rotate-key
  patchbay audit rotate-key --url https://gateway.example --token "$TOKEN"`,
		prints: reply(func(a *asking, made *audit.PublicKey) error {
			return a.printf(nil, "the key %s signs the heads of gateway %s; its public half is %s\n", made.ID,
				made.Gateway, made.PublicKey)
		}),
	}
	return rotate.command(flagsIn(env))
}

// recordOffline returns the trail of operations on a data directory that no gateway uses.
func recordOffline(doc *config.Document, data *durable.Dir) (web.Trail, func(), error) {
	id, err := gateway.IDOf(data)
	if err != nil {
		return nil, nil, err
	}
	chain, _, err := managedaudit.Open(doc, data, id, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	return managedaudit.Trail{Chain: chain}, chain.Close, nil
}
