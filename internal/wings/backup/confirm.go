package backup

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
)

// unconfirmed describes the restore of an unsigned backup that is not confirmed. It is a signed value of the
// place, and everything that the restore wrote is signed with its id.
type unconfirmed struct {
	Restore string `json:"restore"`
	// SHA256 is the digest of the backup.
	SHA256 string `json:"sha256"`
}

// The name of that value, and of the file with it in a data directory.
const (
	unconfirmedName = "restore/unconfirmed"
	unconfirmedFile = "unconfirmed.json"
)

// confirming is a confirmation under way. end notes its result in the audit.
type confirming struct {
	place  *Place
	record Record
	done   Summary
	end    func(error)
	// wanted is the digest of the backup that has to have been restored; empty allows any.
	wanted string
}

// Confirm enables the keys, tokens and secrets of an unsigned backup that was restored to a place in
// which no gateway runs, as the restore wrote them. It counts what it enables; a second time that is
// nothing. One that was killed is run again.
// It fails if path is not empty and another file than this one was restored.
func Confirm(ctx context.Context, p *Place, path string, record Record) (done Summary, err error) {
	if p.Keys == nil {
		return done, errors.New("there is no master key: nothing is disabled without one")
	}
	c := &confirming{place: p, record: record, end: func(error) {}}
	if path != "" {
		if c.wanted, err = digest(path); err != nil {
			return done, err
		}
	}
	if p.Database != "" {
		err = p.inTransaction(ctx, nil, func(tx *sql.Tx, stage string) error { return c.inDatabase(ctx, tx, stage) })
		c.end(err)
	} else {
		err = c.inDirectory(ctx)
	}
	return c.done, err
}

// begin confirms the values of a content, the versions that a store has of it, and the documents. It reports
// whether there was anything to confirm.
func (c *confirming) begin(ctx context.Context, in *content, store *files.Store) (is bool, err error) {
	keys := c.place.Keys
	value, has := in.values[unconfirmedName]
	if !has {
		return false, nil
	}
	if !value.IsSigned(unconfirmedName, keys) {
		return false, errors.New("the note of the restore is not signed with security.master-key or " +
			"security.previous-master-key; set the key of the restore, or restore again")
	}
	var about unconfirmed
	if err := json.Unmarshal(value.Data, &about); err != nil {
		return false, err
	}
	if c.wanted != "" && c.wanted != about.SHA256 {
		return false, fmt.Errorf("another backup was restored last, with SHA-256 %s", about.SHA256)
	}
	signatures := map[int]string{}
	for _, number := range in.numbers {
		r, err := in.record(number)
		if err != nil || r == nil {
			return false, errors.Join(err, versions.NoVersion(number))
		}
		next, err := versions.Confirm(keys, about.Restore, number, r.Text, r.Signature)
		if err != nil {
			return false, err
		}
		if next != "" {
			signatures[number] = next
		}
	}
	values, err := access.Confirmed(in.values, keys, about.Restore)
	if err != nil {
		return false, err
	}
	c.done.SHA256, c.done.Versions = about.SHA256, len(signatures)
	c.done.countValues(values)
	end, err := c.record(&c.done)
	if err != nil {
		return false, err
	}
	c.end = end
	if err := c.documents(ctx, about.Restore); err != nil {
		return false, err
	}
	for number, signature := range signatures {
		if err := store.SetSignature(versions.Record(number), signature); err != nil {
			return false, err
		}
	}
	maps.Copy(in.values, values)
	delete(in.values, unconfirmedName)
	return true, nil
}

// inDirectory confirms a data directory.
func (c *confirming) inDirectory(ctx context.Context) (err error) {
	dir := c.place.DataDir
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("there is no data directory: %w", err)
	}
	store, err := files.Open(dir, c.place.Keys)
	if errors.Is(err, files.ErrInUse) {
		return fmt.Errorf("a gateway runs there; stop it first: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		c.end(err)
		err = errors.Join(err, store.Close())
	}()
	in, err := readStaged(dir, c.place.Keys)
	if err != nil {
		return err
	}
	if is, err := c.begin(ctx, in, store); err != nil || !is {
		return err
	}
	if err := access.WriteStored(store.Data(), in.values); err != nil {
		return err
	}
	return store.Data().Remove(unconfirmedFile)
}

// inDatabase confirms a database, the versions of which it reads to a stage.
func (c *confirming) inDatabase(ctx context.Context, tx *sql.Tx, stage string) error {
	err := pglog.Lock(ctx, tx)
	if err == nil {
		err = cmp.Or(checkIdle(ctx, tx), pglog.Check(ctx, tx, c.place.Keys))
	}
	if err != nil {
		return err
	}
	in, err := c.place.contentOf(ctx, tx, stage)
	if err != nil {
		return err
	}
	if is, err := c.begin(ctx, in, files.Peek(stage)); err != nil || !is {
		return err
	}
	return c.place.replace(ctx, tx, in, in.values, replaced())
}

// documents confirms the documents that a restore wrote.
func (c *confirming) documents(ctx context.Context, restore string) error {
	p := c.place
	for _, k := range p.kept(Parts()) {
		path := p.path(k.Folder)
		if k.IsMerged || len(k.Kinds) == 0 || p.Database == "" && (k.Read != nil || !isThere(path)) {
			continue
		}
		docs, end, err := pgdocuments.Open(p.Database, path, discard())
		if err == nil {
			var n int
			n, err = documents.Confirm(ctx, docs, p.Keys, restore, k.Kinds)
			c.done.Documents += n
			end()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
