package backup

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
)

// confirmation is what Confirm changes in a place: the signatures of versions, and the values.
type confirmation struct {
	signatures map[int]string
	values     map[string]access.StoredValue
}

// confirmed returns the changes that put the content of an unsigned backup into force.
func (p *Place) confirmed(c *content) (*confirmation, error) {
	to := &confirmation{signatures: map[int]string{}}
	for _, number := range c.numbers {
		r, err := c.record(number)
		if err != nil || r == nil {
			return nil, errors.Join(err, versions.NoVersion(number))
		}
		next, err := versions.Confirm(p.Keys, number, r.text, r.signature)
		if err != nil {
			return nil, err
		}
		if next != "" {
			to.signatures[number] = next
		}
	}
	var err error
	to.values, err = access.Confirmed(c.values, p.Keys)
	return to, err
}

// Confirm enables the keys, tokens and secrets of an unsigned backup that was restored to a place in
// which no gateway runs. It counts what it enables; a second time that is nothing. One that was
// killed is run again.
func Confirm(ctx context.Context, p *Place) (done Summary, err error) {
	if p.Keys == nil {
		return done, errors.New("there is no master key: nothing is disabled without one")
	}
	var to *confirmation
	if p.Database != "" {
		err = p.inTransaction(ctx, nil, func(tx *sql.Tx) error {
			to, err = p.confirmDatabase(ctx, tx)
			return err
		})
	} else {
		to, err = p.confirmDirectory(ctx)
	}
	if err != nil {
		return done, err
	}
	done.Versions = len(to.signatures)
	done.countValues(to.values)
	if p.Database != "" {
		err = p.confirmDocuments(ctx)
	}
	return done, err
}

// confirmDirectory confirms the versions and values of a data directory.
func (p *Place) confirmDirectory(ctx context.Context) (to *confirmation, err error) {
	if _, err := os.Stat(p.DataDir); err != nil {
		return nil, fmt.Errorf("there is no data directory: %w", err)
	}
	store, err := files.Open(p.DataDir)
	if errors.Is(err, files.ErrInUse) {
		return nil, fmt.Errorf("a gateway runs there; stop it first: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := readStaged(p.DataDir, p.Keys)
	if err != nil {
		return nil, err
	}
	if to, err = p.confirmed(c); err != nil {
		return nil, err
	}
	for number, signature := range to.signatures {
		if err := store.SetSignature(versions.Record(number), signature); err != nil {
			return nil, err
		}
	}
	if err := p.confirmDocuments(ctx); err != nil {
		return nil, err
	}
	maps.Copy(c.values, to.values)
	return to, access.WriteStored(store.Data(), c.values)
}

// confirmDatabase confirms the versions and values of a database. Its log gets another name: gateways
// read again what they knew before.
func (p *Place) confirmDatabase(ctx context.Context, tx *sql.Tx) (*confirmation, error) {
	_, err := tx.ExecContext(ctx, "LOCK TABLE patchbay_config_current IN ACCESS EXCLUSIVE MODE")
	if err == nil {
		err = checkIdle(ctx, tx)
	}
	if err != nil {
		return nil, err
	}
	c, err := p.contentOf(ctx, tx)
	if err != nil {
		return nil, err
	}
	to, err := p.confirmed(c)
	exec := func(statement string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement, args...)
		}
	}
	sign := func(name, signature string) {
		exec("UPDATE patchbay_config_signatures SET signature = $2 WHERE name = $1", name, signature)
	}
	if err != nil {
		return nil, err
	}
	for number, signature := range to.signatures {
		sign(fmt.Sprintf("version/%d", number), signature)
	}
	for name, value := range to.values {
		exec("UPDATE patchbay_config_values SET value = $2 WHERE name = $1", name, string(value.Data))
		sign("value/"+name, value.Signatures[0])
	}
	c.head.Log = rand.Text()
	exec("UPDATE patchbay_config_current SET log = $1", c.head.Log)
	sign("current", c.head.Sign(p.Keys))
	return to, err
}

// confirmDocuments signs the documents that have no signature.
func (p *Place) confirmDocuments(ctx context.Context) error {
	for i := range p.Kept {
		k := &p.Kept[i]
		path, _ := p.path(k)
		_, missing := os.Stat(path)
		if k.IsMerged || p.Database == "" && (k.File != "" || missing != nil) {
			continue
		}
		store, end, err := p.openDocuments(path)
		if err == nil {
			err = documents.SignAll(ctx, store, p.Keys, k.Kinds)
			end()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openDocuments opens the documents of a database, or those in a folder.
func (p *Place) openDocuments(folder string) (store documents.Store, end func(), err error) {
	if p.Database == "" {
		store, err = documents.OpenDir(folder, discard())
		return store, func() {}, err
	}
	shared, err := pgdocuments.New(p.Database)
	if err != nil {
		return nil, nil, err
	}
	return shared, shared.Close, nil
}
