package pglog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// transaction is one transaction on the log.
type transaction struct {
	ctx  context.Context // bounds the whole transaction, as in database/sql
	conn *pgx.Conn
	tx   pgx.Tx
	head versions.Head
	keys *seal.Keys
}

// End rolls back an uncommitted transaction. It closes a connection that cannot even do
// that.
func (t *transaction) End() {
	ctx, cancel := bounded(context.WithoutCancel(t.ctx))
	defer cancel()
	if err := t.tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		_ = t.conn.Close(ctx)
	}
}

func (t *transaction) exec(statement string, args ...any) (rows int64, err error) {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	tag, err := t.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

// Head returns the head that the log had when the transaction began.
func (t *transaction) Head() (versions.Head, error) { return t.head, nil }

// SetHead writes the next head.
func (t *transaction) SetHead(next versions.Head) error {
	rows, err := t.exec("UPDATE patchbay_config_current SET revision = $1, version = $2, newest = $3, source = $4",
		next.Revision, next.Version, next.Newest, next.Source)
	if err == nil && rows != 1 {
		err = errors.New("the log has lost its head")
	}
	return err
}

// Initialise makes the first head of an empty log.
func (t *transaction) Initialise(first versions.Head) (bool, error) {
	rows, err := t.exec("INSERT INTO patchbay_config_current (log, revision, version, newest, source) VALUES ($1, "+
		"$2, $3, $4, $5) ON CONFLICT DO NOTHING",
		first.Log, first.Revision, first.Version, first.Newest, first.Source)
	if err == nil && rows == 1 {
		_, err = t.exec(writeMark, string(mark.Of(t.keys).Text()))
	}
	return rows == 1, err
}

// Versions returns the numbers of all versions in order.
func (t *transaction) Versions() ([]int, error) {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	rows, err := t.tx.Query(ctx, "SELECT version FROM patchbay_config_versions ORDER BY version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

// Load reads one version.
func (t *transaction) Load(number int) (*versions.Version, error) {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	var record []byte
	err := t.tx.QueryRow(ctx, "SELECT record FROM patchbay_config_versions WHERE version = $1", number).Scan(&record)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, versions.NoVersion(number)
	}
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	return versions.ReadVersion(number, record)
}

const insertVersion = "INSERT INTO patchbay_config_versions (version, created_at, origin, author, summary, record) " +
	"VALUES ($1, $2, $3, $4, $5, $6)"

// Save adds a version.
func (t *transaction) Save(v *versions.Version) error {
	record, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.exec(insertVersion, v.Number, v.CreatedAt, plain(v.Origin), plain(v.Author), plain(v.Summary),
		string(record))
	return err
}

// plain returns a text without the characters that the database refuses. These columns
// are for people; the stored record has the original text.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

// Remove removes versions, with their signatures.
func (t *transaction) Remove(numbers ...int) error {
	_, err := t.exec("DELETE FROM patchbay_config_versions WHERE version = ANY($1)", numbers)
	if err != nil {
		return err
	}
	names := make([]string, len(numbers))
	for i, number := range numbers {
		names[i] = nameOf(versions.Record(number))
	}
	_, err = t.exec("DELETE FROM patchbay_config_signatures WHERE name = ANY($1)", names)
	return err
}

// NewestValue returns the number of the last change of a value, 0 where there
// was none.
func (t *transaction) NewestValue() (newest int64, err error) {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	err = t.tx.QueryRow(ctx, "SELECT coalesce(max(revision), 0) FROM patchbay_config_values").Scan(&newest)
	return newest, err
}

// Values returns the values that changed after a change.
func (t *transaction) Values(since int64) (map[string][]byte, error) {
	values := map[string][]byte{}
	err := t.each("SELECT name, value FROM patchbay_config_values WHERE revision > $1", since,
		func(name, value string) { values[name] = []byte(value) })
	return values, err
}

// each calls visit with the names and texts that a statement selects.
func (t *transaction) each(statement string, arg any, visit func(name, text string)) error {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	rows, err := t.tx.Query(ctx, statement, arg)
	if err != nil {
		return err
	}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		visit(name, text)
		return nil
	})
	return err
}

// PutValue stores a value as the change with this number.
func (t *transaction) PutValue(name string, revision int64, value []byte) error {
	_, err := t.exec(`INSERT INTO patchbay_config_values (name, revision, value) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, value = excluded.value`, name, revision,
		string(value))
	return err
}

// RemoveValue removes a value and its signature. Another value becomes the last change:
// if the number of the last change went back, other gateways would take the log for
// another one and store their own values again, or miss the change that gets the same
// number.
func (t *transaction) RemoveValue(name string) error {
	if err := t.SetValueSignature(name, ""); err != nil {
		return err
	}
	_, err := t.exec(
		`UPDATE patchbay_config_values SET revision = (SELECT max(revision) + 1 FROM patchbay_config_values)
		WHERE name = (SELECT min(name) FROM patchbay_config_values WHERE name <> $1)`, name)
	if err != nil {
		return err
	}
	_, err = t.exec("DELETE FROM patchbay_config_values WHERE name = $1", name)
	return err
}

// valuePrefix begins the names of the signatures of values.
const valuePrefix = "value/"

// nameOf names the signature of a record.
func nameOf(record versions.Record) string {
	if record == versions.RecordHead {
		return "current"
	}
	return fmt.Sprintf("version/%d", record)
}

// Signature returns the signature of a record, empty where there is none.
func (t *transaction) Signature(of versions.Record) (signature string, err error) {
	ctx, cancel := bounded(t.ctx)
	defer cancel()
	err = t.tx.QueryRow(ctx, "SELECT signature FROM patchbay_config_signatures WHERE name = $1",
		nameOf(of)).Scan(&signature)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return signature, err
}

// SetSignature stores the signature of a record, or removes it where it is empty.
func (t *transaction) SetSignature(of versions.Record, signature string) error {
	return t.setSignature(nameOf(of), signature)
}

// ValueSignatures returns the signatures of all values, by their names.
func (t *transaction) ValueSignatures() (map[string]string, error) {
	signatures := map[string]string{}
	err := t.each("SELECT name, signature FROM patchbay_config_signatures WHERE starts_with(name, $1)", valuePrefix,
		func(name, text string) { signatures[strings.TrimPrefix(name, valuePrefix)] = text })
	return signatures, err
}

// SetValueSignature stores the signature of a value, or removes it where it is empty.
func (t *transaction) SetValueSignature(name, signature string) error {
	return t.setSignature(valuePrefix+name, signature)
}

func (t *transaction) setSignature(name, signature string) error {
	if signature == "" {
		_, err := t.exec("DELETE FROM patchbay_config_signatures WHERE name = $1", name)
		return err
	}
	_, err := t.exec("INSERT INTO patchbay_config_signatures (name, signature) VALUES ($1, $2) ON CONFLICT (name) DO "+
		"UPDATE SET signature = excluded.signature", name, signature)
	return err
}

// Commit commits and notifies all listeners. The end of the transaction's context does
// not cancel it, because then it would be unknown whether the log has the change.
func (t *transaction) Commit() error {
	ctx, cancel := bounded(context.WithoutCancel(t.ctx))
	defer cancel()
	if _, err := t.tx.Exec(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
		return err
	}
	return t.tx.Commit(ctx)
}
