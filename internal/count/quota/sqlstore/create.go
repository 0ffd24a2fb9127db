package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// format is the number of the form of the table, as quota_schema has it.
const format = 2

// usage is the table of the totals. It is valid in both databases.
const usage = `CREATE TABLE quota_usage (
	window_type      TEXT   NOT NULL,
	window_start     BIGINT NOT NULL,
	tenant_id        TEXT   NOT NULL,
	api_key_id       TEXT   NOT NULL,
	user_id          TEXT   NOT NULL,
	service_type     TEXT   NOT NULL,
	model            TEXT   NOT NULL,
	writer           TEXT   NOT NULL,
	request_count    BIGINT NOT NULL,
	token_count      BIGINT NOT NULL,
	prompt_count     BIGINT NOT NULL,
	completion_count BIGINT NOT NULL,
	cost             BIGINT NOT NULL,
	updated_at       BIGINT NOT NULL,
	PRIMARY KEY (` + identity + `)
)`

// lockNumber is the advisory lock under which gateways create the tables of a
// database that they share.
const lockNumber = 7_284_113_905

// ErrFormat means that another release has made the tables of the database.
var ErrFormat = errors.New("another release has made the tables of the database, which this one does not read; " +
	"use that release, or another database")

// create creates the tables. If they are there, the user of the database needs no right to
// create tables.
func (s *Store) create(ctx context.Context) error {
	if err := checkFormat(ctx, s.db); err == nil || errors.Is(err, ErrFormat) {
		return err
	}
	return s.inTransaction(ctx, s.createWithin)
}

// checkFormat returns ErrFormat if the tables have another form.
func checkFormat(ctx context.Context, in interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) error {
	var version int
	err := in.QueryRowContext(ctx, "SELECT version FROM quota_schema").Scan(&version)
	if err == nil && version != format {
		return ErrFormat
	}
	return err
}

func (s *Store) createWithin(ctx context.Context, tx *sql.Tx) error {
	if s.postgres {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", lockNumber); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS quota_schema (version BIGINT NOT NULL)"); err != nil {
		return err
	}
	err := checkFormat(ctx, tx)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	statement := usage
	if !s.postgres {
		statement += " WITHOUT ROWID"
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO quota_schema (version) VALUES (%d)", format))
	return err
}

// inTransaction makes changes, all of them or none.
func (s *Store) inTransaction(ctx context.Context, change func(context.Context, *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := change(ctx, tx); err != nil {
		_ = tx.Rollback() // the error that led here says more
		return err
	}
	return tx.Commit()
}
