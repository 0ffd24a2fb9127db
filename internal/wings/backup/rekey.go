package backup

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/redis/rueidis"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
)

// Rekeyed counts what has a new master key.
type Rekeyed struct {
	// Kinds counts the records of each kind of data, by the names of their declarations.
	Kinds map[string]int
	// Places are the places that were signed, and Before those that were signed with the key before.
	Places, Before []string
	// Left are folders of what a restore replaced, which keep their key, or none.
	Left []string
}

// rekeying is a change of the master key under way.
type rekeying struct {
	store.Rekeying

	place *Place
	tell  func(format string, args ...any)
	done  Rekeyed
	// kind is the kind of the records that are being signed, and refused are those that neither key has signed.
	kind    string
	refused []error
	// restore is the id of the restore of an unsigned backup that is not confirmed.
	restore string
}

// Rekey signs and seals everything at a place, in which no gateway runs, with its master key in place of the
// previous one or of none. The mark of the place notes that before anything else and at the end, so that gateways
// refuse a place that is signed in part. What neither key has signed stays as it is, and is an error.
func Rekey(ctx context.Context, p *Place, o Options) (Rekeyed, error) {
	k := &rekeying{place: p, tell: o.Tell, done: Rekeyed{Kinds: map[string]int{}},
		Rekeying: store.Rekeying{Keys: p.Keys, Old: p.Old, IsFirst: p.Old == nil, Path: p.path}}
	k.Done = k.count
	if p.Keys == nil {
		return k.done, errors.New("there is no security.master-key to sign with; nothing turns signing off")
	}
	err := k.rekey(ctx)
	for _, pattern := range []string{asidePrefix + "*", store.Shared + asidePrefix + "*"} {
		if path := k.Path(pattern); path != pattern { // the place is known
			left, _ := filepath.Glob(path) // the pattern is right
			k.done.Left = append(k.done.Left, left...)
		}
	}
	if len(k.refused) > 0 {
		const most = 20
		more := max(0, len(k.refused)-most)
		err = errors.Join(append([]error{err, fmt.Errorf("%d records are signed with neither key, and stay as they "+
			"are; remove them or restore them from a backup, and run this again", len(k.refused))},
			k.refused[:len(k.refused)-more]...)...)
	}
	return k.done, err
}

func (k *rekeying) count(what string, err error) {
	if err != nil {
		k.refused = append(k.refused, errors.New(what+": "+err.Error())) // a wrong key is the fault of the record
		return
	}
	k.done.Kinds[k.kind]++
	k.tell("%s: %d", k.kind, k.done.Kinds[k.kind])
}

func (k *rekeying) rekey(ctx context.Context) error {
	dir, err := k.openDirectory()
	if err != nil {
		return err
	}
	if dir != nil {
		defer func() { _ = dir.Close() }() // every write was complete
	}
	hasDatabase, err := k.beginDatabase(ctx)
	if err != nil {
		return err
	}
	if dir != nil {
		if err := dir.SetMark(mark.Begin(k.Old.ID(), k.Keys)); err != nil {
			return err
		}
		if err := k.directory(dir); err != nil {
			return err
		}
	}
	if dir == nil && !hasDatabase {
		if len(k.done.Before) == 0 {
			return fmt.Errorf("%s has no data to sign", k.place)
		}
		return nil
	}
	if hasDatabase || k.place.Database == "" {
		if err := k.documents(ctx); err != nil {
			return err
		}
	}
	if err := k.files(dir != nil, hasDatabase || k.place.Database == ""); err != nil {
		return err
	}
	if hasDatabase || k.place.Database == "" { // the first directory of several has signed it
		if err := k.redis(ctx); err != nil {
			return err
		}
	}
	if hasDatabase {
		sign := func(tx *sql.Tx, stage string) error { return k.database(ctx, tx, stage) }
		if err := k.place.inTransaction(ctx, nil, sign); err != nil {
			return err
		}
	}
	if dir == nil || len(k.refused) > 0 {
		return nil
	}
	return dir.SetMark(mark.Of(k.Keys))
}

// check returns an error unless the mark of a place is one of the old key or of the new one. A replacement
// that was begun goes on, or back.
func (k *rekeying) check(place string, m mark.Mark) error {
	isBegun := m.IsBegunWith(k.Keys) &&
		(m.Key == k.Old.ID() && m.Next == k.Keys.ID() || m.Key == k.Keys.ID() && m.Next == k.Old.ID())
	if isBegun || m == mark.Of(k.Old) || m == mark.Of(k.Keys) {
		return nil
	}
	if m.Next != "" && !m.IsBegunWith(k.Keys) {
		return fmt.Errorf("%w: what notes in %s that the key is being replaced was not made with these keys: set "+
			"both as they were, or restore a backup to an empty place", mark.ErrMasterKey, place)
	}
	return fmt.Errorf("%w; security.previous-master-key must be that key, or empty if there was none, and "+
		"security.master-key the new one", m.Check(place, k.Old))
}

// begins reports whether the data of a place with a mark is to be signed.
func (k *rekeying) begins(place string, m mark.Mark) bool {
	if m == mark.Of(k.Keys) {
		k.done.Before = append(k.done.Before, place)
		return false
	}
	k.done.Places = append(k.done.Places, place)
	return true
}

// errSigned is the error about a place whose mark was changed.
func (k *rekeying) errSigned(place string) error {
	return fmt.Errorf("%w: %s has records that are signed with the master key %s, and its mark does not name that "+
		"key: somebody changed it. Restore a backup", mark.ErrMasterKey, place, k.Keys.ID())
}

// isSigned reports whether the configuration in a data directory without a key has signatures of the new one.
func (k *rekeying) isSigned(dir string) bool {
	names, _ := filepath.Glob(filepath.Join(dir, "versions", "*.sig")) // the pattern is right
	for _, name := range append(names, filepath.Join(dir, "keys.sealed.json"), filepath.Join(dir, "keys.json")) {
		content, err := os.ReadFile(name)
		if err == nil && bytes.Contains(content, []byte(k.Keys.ID())) {
			return true
		}
	}
	return false
}

// openDirectory locks the data directory, if it has data to sign.
func (k *rekeying) openDirectory() (dir *files.Store, err error) {
	path := k.place.DataDir
	if path == "" || !isThere(path) {
		return nil, nil
	}
	if err := files.Check(path, k.Keys); errors.Is(err, mark.ErrFormat) {
		return nil, err
	}
	var m mark.Mark
	dir, err = files.OpenToRekey(path, func(found mark.Mark) error {
		if m = found; m == mark.Of(nil) && k.isSigned(path) {
			return k.errSigned(path)
		}
		return k.check(path, m)
	})
	switch {
	case errors.Is(err, files.ErrInUse):
		return nil, fmt.Errorf("a gateway runs there; stop it first: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // it is empty
	case err != nil || k.begins(path, m):
		return dir, err
	}
	return nil, dir.Close()
}

// beginDatabase notes in the mark of a shared configuration that it is being signed, and reports whether it is.
func (k *rekeying) beginDatabase(ctx context.Context) (is bool, err error) {
	if k.place.Database == "" {
		return false, nil
	}
	err = postgres.InTransaction(ctx, k.place.Database, nil, func(tx *sql.Tx) error {
		m, err := pglog.Mark(ctx, tx)
		if err != nil || m == (mark.Mark{}) {
			return errors.Join(err, pglog.Check(ctx, tx, k.Keys))
		}
		if err := k.check(k.place.String(), m); err != nil {
			return err
		}
		if err := checkIdle(ctx, tx); err != nil {
			return err
		}
		if is = k.begins(k.place.String(), m); !is {
			return nil
		}
		if isSigned, err := pglog.IsSigned(ctx, tx, k.Keys); err != nil || isSigned && m == mark.Of(nil) {
			return cmp.Or(err, k.errSigned(k.place.String()))
		}
		if err := k.checkFolder(ctx); err != nil {
			return err
		}
		if err := pglog.Lock(ctx, tx); err != nil {
			return err
		}
		log, err := pglog.Read(ctx, tx, nil)
		if err != nil {
			return err
		}
		k.noteRestore(log.Values)
		return pglog.SetMark(ctx, tx, mark.Begin(k.Old.ID(), k.Keys))
	})
	return is, err
}

// directory signs the configuration and the credentials of the data directory.
func (k *rekeying) directory(dir *files.Store) error {
	values, err := access.ReadStored(dir.Data())
	if err == nil {
		err = readUnconfirmed(dir.Data(), values)
	}
	if err != nil {
		return err
	}
	k.noteRestore(values)
	if err := k.configuration(dir, values); err != nil {
		return err
	}
	return writeValues(dir.Data(), values)
}

// noteRestore finds the restore of an unsigned backup that is not confirmed among values.
func (k *rekeying) noteRestore(values map[string]access.StoredValue) {
	var about unconfirmed
	if note, has := values[unconfirmedName]; has && note.IsSigned(unconfirmedName, k.Keys) &&
		json.Unmarshal(note.Data, &about) == nil {
		k.restore = about.Restore
	}
}

// configuration signs versions in the form of a data directory, and values.
func (k *rekeying) configuration(of *files.Store, values map[string]access.StoredValue) error {
	k.kind = "versions of the configuration"
	if err := versions.Rekey(of, &k.Rekeying); err != nil {
		return err
	}
	k.kind = "keys, tokens and other values"
	access.Rekey(values, &k.Rekeying)
	return nil
}

// database signs a shared configuration, and completes its mark.
func (k *rekeying) database(ctx context.Context, tx *sql.Tx, stage string) error {
	if err := pglog.Lock(ctx, tx); err != nil {
		return err
	}
	place := *k.place
	if k.IsFirst {
		place.Keys = nil // nothing is signed
	}
	in, err := place.contentOf(ctx, tx, stage)
	if err != nil {
		return err
	}
	if err := k.configuration(files.Peek(stage), in.values); err != nil {
		return err
	}
	log := in.head.Position
	log.Revision++
	if err := k.place.replace(ctx, tx, in, in.values, log); err != nil || len(k.refused) > 0 {
		return err
	}
	return pglog.SetMark(ctx, tx, mark.Of(k.Keys))
}

// documents signs the documents, and what belongs to them.
func (k *rekeying) documents(ctx context.Context) error {
	for i := range k.place.Kept {
		kept, address := &k.place.Kept[i], k.place.Database
		path := k.place.path(kept.Folder)
		if kept.Folder == "" && address == "" && sqlstore.CheckServer(k.place.Ledger) == nil {
			address = k.place.Ledger
		}
		if len(kept.Signed) == 0 || address == "" && (kept.Folder == "" || !isThere(path)) {
			continue
		}
		k.kind = kept.Name
		docs, end, err := pgdocuments.Open(address, path, discard())
		if err != nil {
			return err
		}
		err = k.documentsOf(ctx, kept, docs)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *rekeying) documentsOf(ctx context.Context, kept *store.Kept, docs documents.Store) error {
	for _, kind := range kept.Signed {
		err := documents.Each(ctx, docs, documents.Query{Kind: kind}, func(doc documents.Document) (bool, error) {
			next, isChanged, err := documents.Rekeyed(k.Keys, doc, k.IsFirst, k.restore,
				func(doc *documents.Document) error {
					if kept.Sealed == nil {
						return nil
					}
					return kept.Sealed(&k.Rekeying, doc)
				})
			if err == nil && isChanged {
				_, err = docs.Put(ctx, next)
			}
			k.Done(doc.Kind+" "+doc.ID, err)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFolder returns an error if the database has documents of files, and it is not known where those are.
func (k *rekeying) checkFolder(ctx context.Context) error {
	for i := range k.place.Kept {
		kept := &k.place.Kept[i]
		if kept.Contents == "" {
			continue
		}
		docs, end, err := pgdocuments.Open(k.place.Database, "", discard())
		if err != nil {
			return err
		}
		has := false
		for _, kind := range kept.Signed {
			err = cmp.Or(err, documents.Each(ctx, docs, documents.Query{Kind: kind},
				func(documents.Document) (bool, error) { has = true; return false, nil }))
		}
		end()
		if has && err == nil {
			err = k.place.checkFolder([]store.Part{kept.Part})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files signs the files in the data directory, and those in the folder that gateways may share.
func (k *rekeying) files(ofDirectory, ofFolder bool) error {
	for i := range k.place.Kept {
		kept := &k.place.Kept[i]
		if kept.Rekey == nil {
			continue
		}
		is := strings.HasPrefix(kept.Files[0], store.Shared)
		if is && !ofFolder || !is && !ofDirectory || k.Path(kept.Files[0]) == kept.Files[0] {
			continue // it is elsewhere, or nothing names the place
		}
		k.kind = kept.Name
		if err := kept.Rekey(&k.Rekeying); err != nil {
			return err
		}
	}
	return nil
}

// redis signs what gateways keep in Redis, if they do.
func (k *rekeying) redis(ctx context.Context) error {
	if !k.place.usesRedis {
		return nil
	}
	client, err := redis.Connect(ctx, k.place.Redis)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer client.Close()
	for i := range k.place.Kept {
		kept := &k.place.Kept[i]
		for _, name := range kept.Redis {
			if kept.Entry == nil {
				continue
			}
			k.kind = kept.Name
			if err := k.entries(ctx, client, kept, k.place.prefixes.Replace(name)); err != nil {
				return fmt.Errorf("redis: %w", err)
			}
		}
	}
	return nil
}

// entries signs the keys in Redis that begin with a prefix.
func (k *rekeying) entries(ctx context.Context, client rueidis.Client, kept *store.Kept, prefix string) error {
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(prefix)
	for _, node := range client.Nodes() {
		for cursor := uint64(0); ; {
			const atOnce = 500
			scan := node.B().Scan().Cursor(cursor).Match(literal + "*").Count(atOnce).Build()
			found, err := node.Do(ctx, scan).AsScanEntry()
			if err != nil {
				return err
			}
			for _, key := range found.Elements {
				if err := k.entry(ctx, client, kept, key); err != nil {
					return err
				}
			}
			if cursor = found.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

func (k *rekeying) entry(ctx context.Context, client rueidis.Client, kept *store.Kept, key string) error {
	kind, err := client.Do(ctx, client.B().Type().Key(key).Build()).ToString()
	if err != nil {
		return err
	}
	fields := map[string]string{}
	switch kind {
	case "string":
		fields[""], err = client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	case "hash":
		fields, err = client.Do(ctx, client.B().Hgetall().Key(key).Build()).AsStrMap()
	default:
		return nil
	}
	if err == nil {
		err = kept.Entry(&k.Rekeying, key, fields)
	}
	if rueidis.IsRedisNil(err) || len(fields) == 0 {
		return nil // its time has come
	}
	if err != nil {
		return err
	}
	if kind == "string" {
		err = client.Do(ctx, client.B().Set().Key(key).Value(fields[""]).Xx().Keepttl().Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	}
	set := client.B().Hset().Key(key).FieldValue()
	for name, text := range fields {
		set = set.FieldValue(name, text)
	}
	return client.Do(ctx, set.Build()).Error()
}
