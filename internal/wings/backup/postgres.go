package backup

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
)

// inTransaction calls a function with a transaction on the database of the configuration.
func (p *Place) inTransaction(ctx context.Context, options *sql.TxOptions, do func(*sql.Tx) error) (err error) {
	db, err := sql.Open("pgx", p.Database)
	if err != nil {
		return errors.New("the address of the database cannot be read")
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the error that led here says more
		return err
	}
	return tx.Commit()
}

// hasTable reports whether there is a table.
func hasTable(ctx context.Context, tx *sql.Tx, name string) (is bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&is)
	return is, err
}

// query calls a function for each row of a query.
func query(ctx context.Context, tx *sql.Tx, text string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	for rows.Next() && err == nil {
		err = scan(rows)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// texts returns the rows of a query with a name and a text.
func texts(ctx context.Context, tx *sql.Tx, text string) (map[string]string, error) {
	found := map[string]string{}
	err := query(ctx, tx, text, func(rows *sql.Rows) error {
		var name, text string
		err := rows.Scan(&name, &text)
		found[name] = text
		return err
	})
	return found, err
}

// readDatabase lets a function read the shared configuration, the credentials and the documents
// as they are at one moment.
func (p *Place) readDatabase(ctx context.Context, use func(*content) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	return p.inTransaction(ctx, options, func(tx *sql.Tx) error {
		c, err := p.contentOf(ctx, tx)
		if err != nil {
			return err
		}
		return use(c)
	})
}

func (p *Place) contentOf(ctx context.Context, tx *sql.Tx) (*content, error) {
	isThere, err := hasTable(ctx, tx, "patchbay_config_current")
	if err != nil {
		return nil, err
	}
	c := new(content)
	h := &c.head
	err = sql.ErrNoRows
	if isThere {
		err = tx.QueryRowContext(ctx, "SELECT log, revision, version, newest, source FROM patchbay_config_current").
			Scan(&h.Log, &h.Revision, &h.Version, &h.Newest, &h.Source)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errors.New("the database has no configuration: no gateway with this store.config has run")
	}
	if err != nil {
		return nil, err
	}
	if c.headText, err = json.Marshal(c.head, json.Deterministic(true)); err != nil {
		return nil, err
	}
	signatures := map[string]string{}
	if isThere, err = hasTable(ctx, tx, "patchbay_config_signatures"); err == nil && isThere {
		signatures, err = texts(ctx, tx, "SELECT name, signature FROM patchbay_config_signatures")
	}
	if err != nil {
		return nil, err
	}
	c.headSign = signatures["current"]
	if err := p.addVersions(ctx, tx, c, signatures); err != nil {
		return nil, err
	}
	if c.values, err = valuesOf(ctx, tx, signatures); err != nil {
		return nil, err
	}
	c.each = func(kept []documents.Kept, visit func(documents.Document) error) (int, error) {
		return 0, eachStored(ctx, tx, kept, visit)
	}
	return c, p.verify(c)
}

// valuesOf returns the values of a database with their signatures.
func valuesOf(ctx context.Context, tx *sql.Tx, signatures map[string]string) (map[string]access.StoredValue, error) {
	values := map[string]access.StoredValue{}
	found, err := texts(ctx, tx, "SELECT name, value FROM patchbay_config_values")
	for name, value := range found {
		stored := access.StoredValue{Data: []byte(value)}
		if signature := signatures["value/"+name]; signature != "" {
			stored.Signatures = []string{signature}
		}
		values[name] = stored
	}
	return values, err
}

// addVersions adds the numbers of the versions, and how they are read.
func (p *Place) addVersions(ctx context.Context, tx *sql.Tx, c *content, signatures map[string]string) error {
	hasChanges := false
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attname = 'changes'
		AND attrelid = to_regclass('patchbay_config_versions'))`).Scan(&hasChanges); err != nil {
		return err
	}
	columns := "record, ''"
	if hasChanges {
		columns = "record, coalesce(changes, '')"
	}
	c.record = func(number int) (*record, error) {
		r := &record{signature: signatures[fmt.Sprintf("version/%d", number)]}
		err := tx.QueryRowContext(ctx, "SELECT "+columns+" FROM patchbay_config_versions WHERE version = $1", number).
			Scan(&r.text, &r.changes)
		return r, err
	}
	return query(ctx, tx, "SELECT version FROM patchbay_config_versions ORDER BY version", func(rows *sql.Rows) error {
		var number int
		err := rows.Scan(&number)
		c.numbers = append(c.numbers, number)
		return err
	})
}

// verify checks that the master key fits the current version of a database.
func (p *Place) verify(c *content) error {
	stage, err := os.MkdirTemp("", "patchbay-backup-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(stage) }() // of a folder of its own
	r, err := c.record(c.head.Version)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%08d", c.head.Version)
	for file, text := range map[string]string{
		"current.json": string(c.headText), "current.sig": c.headSign, name + ".json": string(r.text),
		name + ".sig": r.signature,
	} {
		if text == "" {
			continue
		}
		path := filepath.Join(stage, versionsDir, file)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		if err != nil {
			return err
		}
	}
	_, err = readStaged(stage, p.Keys)
	return err
}

// eachStored calls a function with the documents of a database.
func eachStored(ctx context.Context, tx *sql.Tx, kept []documents.Kept,
	visit func(documents.Document) error) error {
	if isThere, err := hasTable(ctx, tx, "patchbay_documents"); err != nil || !isThere {
		return err
	}
	const text = `SELECT kind, id, scope, created, is_open, bytes, version, data FROM patchbay_documents
		WHERE kind = ANY($1) ORDER BY kind, created, id`
	return query(ctx, tx, text, func(rows *sql.Rows) error {
		var doc documents.Document
		var data []byte
		if err := rows.Scan(&doc.Kind, &doc.ID, &doc.Scope, &doc.Created, &doc.IsOpen, &doc.Bytes, &doc.Version,
			&data); err != nil {
			return err
		}
		doc.Created, doc.Data = doc.Created.UTC(), data
		return visit(doc)
	}, kindsOf(kept, func(k *documents.Kept) []string { return k.Kinds }))
}

func kindsOf(kept []documents.Kept, of func(*documents.Kept) []string) []string {
	kinds := []string{}
	for i := range kept {
		kinds = append(kinds, of(&kept[i])...)
	}
	return kinds
}

// replacedKinds are the kinds of the documents that a restore removes.
func replacedKinds(k *documents.Kept) []string {
	if k.IsMerged {
		return k.Passing
	}
	return append(k.Passing, k.Kinds...)
}

// toDatabase restores to PostgreSQL: all of it in one transaction, if the ledger is in the same
// database.
func (r *restoring) toDatabase(ctx context.Context) error {
	check := func(tx *sql.Tx) error { return r.checkDatabase(ctx, tx) }
	if err := r.place.inTransaction(ctx, nil, check); err != nil {
		return err // before anything is unpacked
	}
	var err error
	if r.stage, err = os.MkdirTemp("", "patchbay-restore-"); err != nil {
		return err
	}
	if err := r.stageConfiguration(); err != nil {
		return err
	}
	c, err := readStaged(r.stage, r.keys)
	if err != nil {
		return err
	}
	c.head.Source = r.source
	if err := r.stageFiles(); err != nil {
		return err
	}
	if err := r.makeTables(ctx); err != nil {
		return err
	}
	fill := func(tx *sql.Tx) error {
		if err := r.fillDatabase(ctx, tx, c); err != nil || !r.has(Files) {
			return err
		}
		return r.exchange(r.place.Folder, r.stagedFiles, []string{contentsDir, answersDir})
	}
	switch {
	case !r.has(Ledger):
		return r.place.inTransaction(ctx, nil, fill)
	case r.place.Ledger == r.place.Database:
		return r.restoreLedger(ctx, fill)
	}
	return r.restoreLedger(ctx, func(*sql.Tx) error { return r.place.inTransaction(ctx, nil, fill) })
}

// makeTables makes the tables that a gateway makes.
func (r *restoring) makeTables(ctx context.Context) error {
	log, err := pglog.New(r.place.Database)
	if err != nil {
		return err
	}
	defer log.Close()
	tx, err := log.Begin(ctx, true)
	if err != nil {
		return err
	}
	tx.End()
	docs, err := pgdocuments.New(r.place.Database)
	if err != nil {
		return err
	}
	defer docs.Close()
	_, _, err = docs.Use(ctx, fileKind, "")
	return err
}

// checkIdle returns an error if a gateway uses the database.
func checkIdle(ctx context.Context, tx *sql.Tx) error {
	isThere, err := hasTable(ctx, tx, "patchbay_members")
	if err != nil {
		return err
	}
	var running []string
	if isThere {
		const text = "SELECT id FROM patchbay_members WHERE seen > now() - make_interval(secs => $1) ORDER BY id"
		err = query(ctx, tx, text, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			running = append(running, id)
			return err
		}, cluster.AwayAfter.Seconds())
	}
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("gateways run on this database (%s): stop them first; one that was killed is seen for %s "+
			"more", strings.Join(running, ", "), cluster.AwayAfter)
	}
	return nil
}

// checkDatabase returns an error if a gateway uses the database, or if a restore would replace
// something, unless it may.
func (r *restoring) checkDatabase(ctx context.Context, tx *sql.Tx) error {
	if err := checkIdle(ctx, tx); err != nil || r.force {
		return err
	}
	for table, what := range map[string]string{
		"patchbay_config_current": "a configuration", "patchbay_documents": "files or batches",
	} {
		if isThere, err := hasTable(ctx, tx, table); err != nil || !isThere {
			if err != nil {
				return err
			}
			continue
		}
		isFull := false
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&isFull); err != nil {
			return err
		}
		if isFull && (table != "patchbay_documents" || r.has(Files)) {
			return r.notEmpty(what)
		}
	}
	return r.checkFolder()
}

// fillDatabase replaces the configuration, the credentials and the documents of the database. The
// log gets another name: gateways that knew the one before take it for a new one, and keep what
// they had as a backup.
func (r *restoring) fillDatabase(ctx context.Context, tx *sql.Tx, c *content) (err error) {
	exec := func(statement string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement, args...)
		}
	}
	exec("LOCK TABLE patchbay_config_current IN ACCESS EXCLUSIVE MODE")
	if err == nil {
		err = r.checkDatabase(ctx, tx)
	}
	if err == nil {
		err = r.takeValues(ctx, tx)
	}
	for _, table := range []string{"current", "versions", "values", "signatures"} {
		exec("DELETE FROM patchbay_config_" + table)
	}
	sign := func(name, signature string) {
		if signature != "" {
			exec("INSERT INTO patchbay_config_signatures (name, signature) VALUES ($1, $2)", name, signature)
		}
	}
	for _, number := range c.numbers {
		if err != nil {
			return err
		}
		var stored *record
		if stored, err = c.record(number); err != nil {
			return err
		}
		var about struct {
			CreatedAt time.Time `json:"createdAt"`
			Origin    string    `json:"origin"`
			Author    string    `json:"author"`
			Summary   string    `json:"summary"`
		}
		if err := json.Unmarshal(stored.text, &about); err != nil {
			return fmt.Errorf("version %d: %w", number, err)
		}
		exec("INSERT INTO patchbay_config_versions (version, created_at, origin, author, summary, record, changes) "+
			"VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''))", number, about.CreatedAt, plain(about.Origin),
			plain(about.Author), plain(about.Summary), string(stored.text), plain(stored.changes))
		sign(fmt.Sprintf("version/%d", number), stored.signature)
	}
	for i, name := range slices.Sorted(maps.Keys(r.values)) {
		value := r.values[name]
		exec("INSERT INTO patchbay_config_values (name, revision, value) VALUES ($1, $2, $3)", name, i+1,
			string(value.Data))
		sign("value/"+name, r.signatureOf(name, value))
	}
	head := c.head
	head.Position = versions.Position{Log: rand.Text(), Revision: 1}
	exec("INSERT INTO patchbay_config_current (log, revision, version, newest, source) VALUES ($1, $2, $3, $4, $5)",
		head.Log, head.Revision, head.Version, head.Newest, head.Source)
	if r.keys != nil {
		sign("current", head.Sign(r.keys))
	}
	note := r.restored() // the audit begins new chains
	exec(`CREATE TABLE IF NOT EXISTS patchbay_audit_restores (time TEXT COLLATE "C" NOT NULL, made TEXT NOT NULL)`)
	exec("INSERT INTO patchbay_audit_restores (time, made) VALUES ($1, $2)", note.Time, note.Made)
	exec("DELETE FROM patchbay_documents WHERE kind = ANY($1)", kindsOf(r.kept, replacedKinds))
	add := func(doc documents.Document) error {
		exec(`INSERT INTO patchbay_documents AS before
			(kind, id, scope, created, is_open, bytes, version, changed, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), $8) ON CONFLICT (kind, id) DO UPDATE SET
			scope = excluded.scope, created = excluded.created, data = excluded.data, version = before.version + 1
			WHERE before.created < excluded.created`, doc.Kind, doc.ID, doc.Scope, doc.Created, doc.IsOpen, doc.Bytes,
			doc.Version, string(doc.Data))
		return err
	}
	if err != nil {
		return err
	}
	return errors.Join(r.eachDocument(add), r.eachUnseen(add))
}

// takeValues completes the values with what the database knows as revoked.
func (r *restoring) takeValues(ctx context.Context, tx *sql.Tx) error {
	signatures, err := texts(ctx, tx, "SELECT name, signature FROM patchbay_config_signatures")
	if err != nil {
		return err
	}
	theirs, err := valuesOf(ctx, tx, signatures)
	if err != nil {
		return err
	}
	return r.restoreValues(theirs)
}

// signatureOf returns the signature of a value. The key of sessions has none in a data
// directory, where it is encrypted.
func (r *restoring) signatureOf(name string, value access.StoredValue) string {
	for _, signature := range value.Signatures {
		if r.keys.Trust(name, value.Data, signature).IsTrusted {
			return signature
		}
	}
	if r.keys != nil && strings.HasPrefix(name, "sealed/") {
		return r.keys.SignValue(name, value.Data)
	}
	return ""
}

// plain returns a text without the characters that the database refuses.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}
