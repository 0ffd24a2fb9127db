package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/cluster/registry"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
)

// inTransaction calls a function with a transaction on the database of the configuration, and with a folder
// for the time of it.
func (p *Place) inTransaction(ctx context.Context, options *sql.TxOptions, do func(tx *sql.Tx, stage string) error,
) error {
	stage, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }() // of a folder of its own
	return postgres.InTransaction(ctx, p.Database, options, func(tx *sql.Tx) error { return do(tx, stage) })
}

// readDatabase lets a function read the shared configuration, the credentials and the documents
// as they are at one moment.
func (p *Place) readDatabase(ctx context.Context, use func(*content) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	return p.inTransaction(ctx, options, func(tx *sql.Tx, stage string) error {
		if err := pglog.Check(ctx, tx, p.Keys); err != nil {
			return err
		}
		c, err := p.contentOf(ctx, tx, stage)
		if err != nil {
			return err
		}
		return use(c)
	})
}

// contentOf returns the content of a database. Its versions are in a folder, in the form of a data directory.
func (p *Place) contentOf(ctx context.Context, tx *sql.Tx, stage string) (*content, error) {
	dir := filepath.Join(stage, versionsDir)
	err := os.MkdirAll(dir, 0o700)
	write := func(name, text string) {
		if err == nil && text != "" {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	log, failed := pglog.Read(ctx, tx, func(v pglog.Stored) error {
		name := fmt.Sprintf("%08d", v.Number)
		write(name+".json", string(v.Text))
		write(name+".sig", v.Signature)
		return err
	})
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	if log.Head.Version == 0 {
		return nil, errors.New("the database has no configuration: no gateway with this store.config has run")
	}
	head, failed := json.Marshal(log.Head, json.Deterministic(true))
	write("current.json", string(head))
	write("current.sig", log.HeadSignature)
	if err := cmp.Or(failed, err); err != nil {
		return nil, err
	}
	c, err := readStaged(stage, p.Keys)
	if err != nil {
		return nil, err
	}
	c.values = log.Values
	c.each = func(kept []store.Kept, visit func(documents.Document) error) (int, error) {
		return 0, pgdocuments.Each(ctx, tx, kindsOf(kept, func(k *store.Kept) []string { return k.Kinds }), visit)
	}
	return c, nil
}

func kindsOf(kept []store.Kept, of func(*store.Kept) []string) []string {
	kinds := []string{}
	for i := range kept {
		kinds = append(kinds, of(&kept[i])...)
	}
	return kinds
}

// replacedKinds are the kinds of the documents that a restore removes.
func replacedKinds(k *store.Kept) []string {
	if k.IsMerged {
		return k.Passing
	}
	return append(k.Passing, k.Kinds...)
}

// toDatabase restores to PostgreSQL: all of it in one transaction, if the ledger is in the same
// database.
func (r *restoring) toDatabase(ctx context.Context) error {
	check := func(tx *sql.Tx) error { return r.checkDatabase(ctx, tx) }
	if err := postgres.InTransaction(ctx, r.place.Database, nil, check); err != nil {
		return err // before anything is unpacked
	}
	var err error
	if r.stage, err = os.MkdirTemp("", "patchbay-restore-"); err != nil {
		return err
	}
	c, err := r.stageConfiguration()
	if err != nil {
		return err
	}
	if err := r.stageFiles(); err != nil {
		return err
	}
	fill := func(tx *sql.Tx) error {
		if err := r.fillDatabase(ctx, tx, c); err != nil || !r.has(store.Files) {
			return err
		}
		return r.exchange(r.place.Folder, r.stagedFiles, r.beside)
	}
	switch {
	case !r.has(store.Ledger):
		return postgres.InTransaction(ctx, r.place.Database, nil, fill)
	case r.place.Ledger == r.place.Database:
		return r.restoreLedger(ctx, fill)
	}
	return r.restoreLedger(ctx, func(*sql.Tx) error {
		return postgres.InTransaction(ctx, r.place.Database, nil, fill)
	})
}

// checkIdle returns an error if a gateway uses the database.
func checkIdle(ctx context.Context, tx *sql.Tx) error {
	running, err := registry.Running(ctx, tx)
	if err != nil || len(running) == 0 {
		return err
	}
	return fmt.Errorf("gateways run on this database (%s): stop them first; one that was killed is seen for %s "+
		"more", strings.Join(running, ", "), cluster.AwayAfter)
}

// checkDatabase returns an error if a gateway uses the database, or if a restore would replace
// something, unless it may.
func (r *restoring) checkDatabase(ctx context.Context, tx *sql.Tx) error {
	err := cmp.Or(checkIdle(ctx, tx), pglog.Check(ctx, tx, r.keys))
	if errors.Is(err, mark.ErrMasterKey) && r.force {
		m, failed := pglog.Mark(ctx, tx)
		if failed != nil || m.Next != r.keys.ID() || !m.IsBegunWith(r.keys) {
			return cmp.Or(failed, err)
		}
		r.begun, err = m, nil
	}
	if err != nil || r.force {
		return err
	}
	log, err := pglog.Read(ctx, tx, nil)
	if err == nil && log.Head.Version > 0 {
		err = r.notEmpty("a configuration")
	}
	if err == nil {
		err = pgdocuments.Each(ctx, tx, kindsOf(r.kept, replacedKinds), func(doc documents.Document) error {
			return r.notEmpty("documents of the kind " + doc.Kind)
		})
	}
	return cmp.Or(err, r.checkFiles())
}

// replaced is the position of a log in place of another one. It has another name: gateways that knew the one
// before take it for a new one, and keep what they had as a backup.
func replaced() versions.Position { return versions.Position{Log: rand.Text(), Revision: 1} }

// replace replaces the configuration and the credentials of the database.
func (p *Place) replace(ctx context.Context, tx *sql.Tx, c *content, values map[string]access.StoredValue,
	at versions.Position) error {
	log := pglog.Copy{Head: c.head, Values: values}
	log.Head.Position = at
	if p.Keys != nil {
		log.HeadSignature = log.Head.Sign(p.Keys)
	}
	return log.Replace(ctx, tx, func(add func(pglog.Stored) error) error {
		for _, number := range c.numbers {
			v, err := c.record(number)
			if err == nil {
				err = add(*v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// fillDatabase replaces the configuration, the credentials and the documents of the database.
func (r *restoring) fillDatabase(ctx context.Context, tx *sql.Tx, c *content) error {
	err := pglog.Make(ctx, tx)
	if err == nil {
		err = pglog.Lock(ctx, tx)
	}
	if err == nil {
		err = r.checkDatabase(ctx, tx)
	}
	if err == nil {
		err = pglog.SetMark(ctx, tx, r.mark())
	}
	if err != nil {
		return err
	}
	theirs, err := pglog.Read(ctx, tx, nil)
	if err == nil {
		err = r.restoreValues(theirs.Values) // which the database knows as revoked
	}
	if err != nil {
		return err
	}
	for name, value := range r.values {
		value.Signatures = r.signatureOf(name, value)
		r.values[name] = value
	}
	add := func(doc documents.Document) error { return pgdocuments.Merge(ctx, tx, doc) }
	return cmp.Or(r.place.replace(ctx, tx, c, r.values, replaced()), r.tellOwners(ctx, tx),
		pgdocuments.Remove(ctx, tx, kindsOf(r.kept, replacedKinds)), r.eachDocument(add), r.eachUnseen(add))
}

// signatureOf returns the signature of a value, if there is one. The key of sessions has none in a data
// directory, where it is encrypted.
func (r *restoring) signatureOf(name string, value access.StoredValue) []string {
	for _, signature := range value.Signatures {
		if r.keys.Trust(name, value.Data, signature).IsTrusted {
			return []string{signature}
		}
	}
	if r.keys != nil && strings.HasPrefix(name, "sealed/") {
		return []string{r.keys.SignValue(name, value.Data)}
	}
	return nil
}
