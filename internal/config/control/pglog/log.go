// Package pglog is a log of versions in PostgreSQL that several gateways follow,
// with the values that they share beside it.
package pglog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	// Timeout bounds every call of the database, on both sides.
	Timeout = 2 * time.Second
	// AbandonedAfter ends the transaction of a gateway that froze inside it. The others
	// can then write again.
	AbandonedAfter = 5 * time.Second
	// channel is the notification channel that announces every commit.
	channel = "patchbay_config"
)

// Log is a log of versions in PostgreSQL.
type Log struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil before the first use, and after an error
	ready  bool      // the tables exist
	keys   *seal.Keys
}

// New returns the log at the address of a PostgreSQL server. It connects when it
// is needed. The error never repeats the address, which may hold a password. Begin fails with
// mark.ErrMasterKey or mark.ErrFormat, and changes nothing, unless the log is signed with keys, which may be nil.
func New(address string, keys *seal.Keys) (*Log, error) {
	config, err := postgres.Parse(address, Timeout)
	if err != nil {
		return nil, fmt.Errorf("store.config: %w", err)
	}
	for name, limit := range map[string]time.Duration{
		"statement_timeout": Timeout, "idle_in_transaction_session_timeout": AbandonedAfter,
	} {
		config.RuntimeParams[name] = strconv.FormatInt(limit.Milliseconds(), 10)
	}
	return &Log{config: config, keys: keys}, nil
}

// Close closes the connection. The next transaction opens it again.
func (l *Log) Close() {
	if l.conn != nil {
		closeConn(l.conn)
	}
	l.conn = nil
}

// closeConn closes a connection that is of no use any more.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := bounded(context.Background())
	defer cancel()
	_ = conn.Close(ctx)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, Timeout)
}

func (l *Log) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return pgx.ConnectConfig(ctx, l.config)
}

// Begin opens a transaction that sees the log at one moment or, to write, keeps
// all other writers out.
func (l *Log) Begin(ctx context.Context, write bool) (versions.Transaction, error) {
	reused := l.conn != nil && !l.conn.IsClosed()
	tx, err := l.try(ctx, write)
	if err != nil && reused && (l.conn == nil || l.conn.IsClosed()) && ctx.Err() == nil {
		tx, err = l.try(ctx, write) // the connection had ended since it was used last
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return tx, nil
}

func (l *Log) try(ctx context.Context, write bool) (*transaction, error) {
	if l.conn == nil || l.conn.IsClosed() {
		conn, err := l.connect(ctx)
		if err != nil {
			return nil, err
		}
		l.conn, l.ready = conn, false
	}
	if !l.ready {
		if err := l.check(ctx); err != nil {
			return nil, err
		}
		if err := l.addTables(ctx); err != nil {
			return nil, fmt.Errorf("tables: %w", err)
		}
		l.ready = true
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	query := "SELECT log, revision, version, newest, source FROM patchbay_config_current"
	if write {
		options = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
		query += " FOR UPDATE"
	}
	t := &transaction{ctx: ctx, conn: l.conn, keys: l.keys}
	ctx, cancel := bounded(ctx)
	defer cancel()
	tx, err := l.conn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	t.tx = tx
	h := &t.head
	err = tx.QueryRow(ctx, query).Scan(&h.Log, &h.Revision, &h.Version, &h.Newest, &h.Source)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.End()
		return nil, err
	}
	return t, nil
}

func (l *Log) addTables(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	missing := tables()
	return missing.Add(ctx, l.conn)
}

// check returns an error unless the log is empty or is signed with the keys.
func (l *Log) check(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	hasLog, hasMark := false, false
	err := l.conn.QueryRow(ctx, `SELECT to_regclass('patchbay_config_current') IS NOT NULL,
		to_regclass('patchbay_format') IS NOT NULL`).Scan(&hasLog, &hasMark)
	var m mark.Mark
	if err == nil && hasMark {
		text := ""
		err = l.conn.QueryRow(ctx, readMark).Scan(&text)
		if err == nil && text != "" {
			m, err = mark.Read([]byte(text))
		}
	}
	if err == nil && hasLog {
		err = l.conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM patchbay_config_current)").Scan(&hasLog)
	}
	if err != nil {
		return err
	}
	return checkMark(m, hasLog, l.keys)
}

// readMark reads the mark, empty if there is none, and writeMark writes it.
const (
	readMark  = "SELECT coalesce((SELECT mark FROM patchbay_format), '')"
	writeMark = `INSERT INTO patchbay_format (mark) VALUES ($1)
		ON CONFLICT (single) DO UPDATE SET mark = excluded.mark`
)

// checkMark returns an error unless the log with a mark is signed with keys, or there is no log.
func checkMark(m mark.Mark, hasLog bool, keys *seal.Keys) error {
	switch {
	case m != mark.Mark{}:
		return m.Check(place, keys)
	case hasLog:
		return mark.Missing(place, "the table patchbay_config_current")
	}
	return nil
}

// place names the log in errors.
const place = "the database of the shared configuration"

// tables are the tables of the log.
func tables() postgres.Tables {
	return postgres.Tables{Last: "patchbay_format", Lock: 7_284_113_906, Make: []string{
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
		`CREATE TABLE IF NOT EXISTS patchbay_config_signatures (
			name      TEXT PRIMARY KEY,
			signature TEXT NOT NULL
		)`,
		`CREATE TABLE IF NOT EXISTS patchbay_format (
			single BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (single),
			mark   TEXT NOT NULL
		)`,
	}}
}

// listener is a connection that is notified of every commit.
type listener struct{ conn *pgx.Conn }

// Listen opens a connection that is notified of every commit.
func (l *Log) Listen(ctx context.Context) (versions.Listener, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return listener{conn}, nil
}

func (l listener) Wait(ctx context.Context) error {
	_, err := l.conn.WaitForNotification(ctx)
	if err != nil && l.conn.IsClosed() {
		return err
	}
	return nil
}

func (l listener) Close() { closeConn(l.conn) }
