package backup

import (
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

// confirmation is what Confirm changes in a place: the signatures of versions, and the values.
type confirmation struct {
	unconfirmed
	signatures map[int]string
	values     map[string]access.StoredValue
}

// confirmed returns the changes that put the content of an unsigned backup into force, with an empty id if
// there is none.
func (p *Place) confirmed(c *content) (*confirmation, error) {
	to := &confirmation{signatures: map[int]string{}}
	value, has := c.values[unconfirmedName]
	if !has {
		return to, nil
	}
	if !value.IsSigned(unconfirmedName, p.Keys) {
		return nil, errors.New("the note of the restore is not signed with security.master-key or " +
			"security.previous-master-key; set the key of the restore, or restore again")
	}
	if err := json.Unmarshal(value.Data, &to.unconfirmed); err != nil {
		return nil, err
	}
	for _, number := range c.numbers {
		r, err := c.record(number)
		if err != nil || r == nil {
			return nil, errors.Join(err, versions.NoVersion(number))
		}
		next, err := versions.Confirm(p.Keys, to.Restore, number, r.Text, r.Signature)
		if err != nil {
			return nil, err
		}
		if next != "" {
			to.signatures[number] = next
		}
	}
	var err error
	to.values, err = access.Confirmed(c.values, p.Keys, to.Restore)
	return to, err
}

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

// begin confirms the documents and returns the other changes, nil if there are none.
func (c *confirming) begin(ctx context.Context, in *content) (*confirmation, error) {
	to, err := c.place.confirmed(in)
	if err != nil || to.Restore == "" {
		return nil, err
	}
	if c.wanted != "" && c.wanted != to.SHA256 {
		return nil, fmt.Errorf("another backup was restored last, with SHA-256 %s", to.SHA256)
	}
	c.done.SHA256, c.done.Versions = to.SHA256, len(to.signatures)
	c.done.countValues(to.values)
	end, err := c.record(&c.done)
	if err != nil {
		return nil, err
	}
	c.end = end
	return to, c.documents(ctx, to.Restore)
}

// inDirectory confirms a data directory.
func (c *confirming) inDirectory(ctx context.Context) (err error) {
	dir := c.place.DataDir
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("there is no data directory: %w", err)
	}
	store, err := files.Open(dir)
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
	to, err := c.begin(ctx, in)
	if err != nil || to == nil {
		return err
	}
	for number, signature := range to.signatures {
		if err := store.SetSignature(versions.Record(number), signature); err != nil {
			return err
		}
	}
	maps.Copy(in.values, to.values)
	if err := access.WriteStored(store.Data(), in.values); err != nil {
		return err
	}
	return store.Data().Remove(unconfirmedFile)
}

// inDatabase confirms a database.
func (c *confirming) inDatabase(ctx context.Context, tx *sql.Tx, stage string) error {
	err := pglog.Lock(ctx, tx)
	if err == nil {
		err = checkIdle(ctx, tx)
	}
	if err != nil {
		return err
	}
	in, err := c.place.contentOf(ctx, tx, stage)
	if err != nil {
		return err
	}
	to, err := c.begin(ctx, in)
	if err != nil || to == nil {
		return err
	}
	record := in.record
	in.record = func(number int) (*pglog.Stored, error) {
		v, err := record(number)
		if signature := to.signatures[number]; signature != "" && err == nil {
			v.Signature = signature
		}
		return v, err
	}
	for name, value := range to.values {
		value.Signatures = value.Signatures[:1]
		in.values[name] = value
	}
	delete(in.values, unconfirmedName)
	return c.place.replace(ctx, tx, in, in.values)
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
