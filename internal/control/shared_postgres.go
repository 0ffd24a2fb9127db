package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
)

const (
	// sharedTimeout bounds every call of the database, there and here.
	sharedTimeout = 2 * time.Second
	// abandonedAfter ends the transaction of a gateway that froze inside it, so
	// that the others can write again.
	abandonedAfter = 5 * time.Second
	sharedChannel  = "patchbay_config"
	// sharedLock is the advisory lock under which the tables are made.
	sharedLock = 7_284_113_906
)

// Shared is the log of versions in PostgreSQL that several gateways follow. It
// belongs to one Control, whose lock guards it.
type Shared struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil until needed, and after it broke
	ready  bool      // the tables were seen
}

// place is a point in the history of a log: every write moves it on by one.
type place struct {
	Log      string
	Revision int64
}

// head is what a log says about itself. One that is empty has the zero head.
type head struct {
	place
	Version, Newest int
	// Source identifies the services of the configuration file that became a
	// version last, whichever gateway read it.
	Source string
}

// NewShared returns the log at the address of a PostgreSQL server. It connects
// when it is needed. The error never repeats the address, which may hold a
// password.
func NewShared(address string) (*Shared, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("store.config: the address of the database cannot be read")
	}
	config.ConnectTimeout = sharedTimeout
	for name, limit := range map[string]time.Duration{
		"statement_timeout": sharedTimeout, "idle_in_transaction_session_timeout": abandonedAfter,
	} {
		config.RuntimeParams[name] = strconv.FormatInt(limit.Milliseconds(), 10)
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "patchbay"
	}
	return &Shared{config: config}, nil
}

// drop lets go of the connection.
func (s *Shared) drop() {
	if s.conn != nil {
		ctx, cancel := bounded(context.Background())
		defer cancel()
		_ = s.conn.Close(ctx) // it is of no use any more
	}
	s.conn = nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, sharedTimeout)
}

func (s *Shared) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return pgx.ConnectConfig(ctx, s.config)
}

// listen returns a connection that hears of every write.
func (s *Shared) listen(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := conn.Exec(ctx, "LISTEN "+sharedChannel); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// session is one transaction on the log.
type session struct {
	conn *pgx.Conn
	tx   pgx.Tx
	head head
	// source is what the head gets as its source with the next write.
	source string
	// committed says that the log has what was written.
	committed bool
}

// begin opens a transaction that sees the log at one moment or, to write, keeps
// all other writers out.
func (s *Shared) begin(ctx context.Context, write bool) (*session, error) {
	reused := s.conn != nil && !s.conn.IsClosed()
	opened, err := s.try(ctx, write)
	if err != nil && reused && (s.conn == nil || s.conn.IsClosed()) {
		opened, err = s.try(ctx, write) // the old connection ended while nobody looked
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	return opened, nil
}

func (s *Shared) try(ctx context.Context, write bool) (*session, error) {
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		s.conn, s.ready = conn, false
	}
	if !s.ready {
		if err := s.prepare(ctx); err != nil {
			return nil, fmt.Errorf("tables: %w", err)
		}
		s.ready = true
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	query := "SELECT log, revision, version, newest, source FROM patchbay_config_current"
	if write {
		options = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
		query += " FOR UPDATE"
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	tx, err := s.conn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	opened := &session{conn: s.conn, tx: tx}
	h := &opened.head
	err = tx.QueryRow(ctx, query).Scan(&h.Log, &h.Revision, &h.Version, &h.Newest, &h.Source)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		opened.end()
		return nil, err
	}
	opened.source = h.Source
	return opened, nil
}

// prepare makes the tables unless they are there: then the right to make tables
// is not needed.
func (s *Shared) prepare(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var there bool
	err := s.conn.QueryRow(ctx, "SELECT to_regclass('patchbay_config_current') IS NOT NULL AND to_regclass('patchbay_config_values') IS NOT NULL").Scan(&there)
	if err != nil || there {
		return err
	}
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		for _, statement := range []string{
			fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", sharedLock),
			`CREATE TABLE IF NOT EXISTS patchbay_config_versions (
				version    INTEGER PRIMARY KEY,
				created_at TIMESTAMPTZ NOT NULL,
				origin     TEXT NOT NULL,
				author     TEXT NOT NULL,
				summary    TEXT NOT NULL,
				record     TEXT NOT NULL
			)`,
			`CREATE TABLE IF NOT EXISTS patchbay_config_current (
				single   BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (single),
				log      TEXT NOT NULL,
				revision BIGINT NOT NULL,
				version  INTEGER NOT NULL,
				newest   INTEGER NOT NULL,
				source   TEXT NOT NULL
			)`,
			`CREATE TABLE IF NOT EXISTS patchbay_config_values (
				name     TEXT PRIMARY KEY,
				revision BIGINT NOT NULL,
				value    TEXT NOT NULL
			)`,
			`CREATE INDEX IF NOT EXISTS patchbay_config_values_revision ON patchbay_config_values (revision)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// end gives up what was not committed. A connection that cannot even do that is
// closed by it.
func (t *session) end() {
	ctx, cancel := bounded(context.Background())
	defer cancel()
	if err := t.tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		_ = t.conn.Close(ctx)
	}
}

func (t *session) exec(statement string, args ...any) (rows int64, err error) {
	ctx, cancel := bounded(context.Background())
	defer cancel()
	tag, err := t.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

// numbers returns the versions that the log has.
func (t *session) numbers() ([]int, error) {
	ctx, cancel := bounded(context.Background())
	defer cancel()
	rows, err := t.tx.Query(ctx, "SELECT version FROM patchbay_config_versions ORDER BY version")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}

func (t *session) load(number int) (*Version, error) {
	ctx, cancel := bounded(context.Background())
	defer cancel()
	var record []byte
	err := t.tx.QueryRow(ctx, "SELECT record FROM patchbay_config_versions WHERE version = $1", number).Scan(&record)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	v := new(Version)
	if err := json.Unmarshal(record, v, strict()); err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	if v.Number != number {
		return nil, fmt.Errorf("version %d: the record holds version %d", number, v.Number)
	}
	return v, nil
}

func (t *session) insert(v *Version) error {
	record, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.exec("INSERT INTO patchbay_config_versions (version, created_at, origin, author, summary, record) VALUES ($1, $2, $3, $4, $5, $6)",
		v.Number, v.CreatedAt, plain(v.Origin), plain(v.Author), plain(v.Summary), string(record))
	return err
}

// plain returns a text that the database takes; these columns are for people,
// and the record has it as it is.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

func (t *session) remove(number int) error {
	_, err := t.exec("DELETE FROM patchbay_config_versions WHERE version = $1", number)
	return err
}

func (t *session) removeAll(numbers []int) error {
	_, err := t.exec("DELETE FROM patchbay_config_versions WHERE version = ANY($1)", numbers)
	return err
}

// move writes the next head.
func (t *session) move(next head) error {
	rows, err := t.exec("UPDATE patchbay_config_current SET revision = $1, version = $2, newest = $3, source = $4",
		next.Revision, next.Version, next.Newest, next.Source)
	if err == nil && rows != 1 {
		err = errors.New("the log has lost its head")
	}
	return err
}

// found makes the first head of an empty log. It reports false if another
// gateway was faster.
func (t *session) found(first head) (bool, error) {
	rows, err := t.exec("INSERT INTO patchbay_config_current (log, revision, version, newest, source) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
		first.Log, first.Revision, first.Version, first.Newest, first.Source)
	return rows == 1, err
}

// commit tells everybody, and commits.
func (t *session) commit(next head) error {
	if _, err := t.exec("SELECT pg_notify($1, '')", sharedChannel); err != nil {
		return err
	}
	ctx, cancel := bounded(context.Background())
	defer cancel()
	if err := t.tx.Commit(ctx); err != nil {
		return err
	}
	t.head, t.committed = next, true
	return nil
}

// newLog names a log.
func newLog() string { return rand.Text() }
