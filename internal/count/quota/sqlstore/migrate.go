package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// migrations returns the statements that migrate the tables from each version to
// the next. They are valid in both databases.
func migrations() []string {
	return []string{
		`CREATE TABLE quota_usage (
			window_type   TEXT   NOT NULL,
			window_start  BIGINT NOT NULL,
			tenant_id     TEXT   NOT NULL,
			api_key_id    TEXT   NOT NULL,
			user_id       TEXT   NOT NULL,
			service_type  TEXT   NOT NULL,
			model         TEXT   NOT NULL,
			writer        TEXT   NOT NULL,
			request_count BIGINT NOT NULL,
			token_count   BIGINT NOT NULL,
			updated_at    BIGINT NOT NULL,
			PRIMARY KEY (` + identity + `)
		)`,
	}
}

// detailTable has the counts beside requests and tokens. It is a table of its own and
// not part of the versions: earlier releases can share the database.
const detailTable = `CREATE TABLE IF NOT EXISTS quota_detail (
	window_type      TEXT   NOT NULL,
	window_start     BIGINT NOT NULL,
	tenant_id        TEXT   NOT NULL,
	api_key_id       TEXT   NOT NULL,
	user_id          TEXT   NOT NULL,
	service_type     TEXT   NOT NULL,
	model            TEXT   NOT NULL,
	writer           TEXT   NOT NULL,
	prompt_count     BIGINT NOT NULL,
	completion_count BIGINT NOT NULL,
	cost             BIGINT NOT NULL,
	PRIMARY KEY (` + identity + `)
)`

// lockNumber is the advisory lock under which gateways change the tables of a
// database that they share.
const lockNumber = 7_284_113_905

// ErrNewer means that the database belongs to a newer release.
var ErrNewer = errors.New("the tables of the database are of a newer release; upgrade, or use another database")

// migrate migrates the tables to the version of this release. If they have that
// version already, the user of the database needs no right to create tables.
func (s *Store) migrate(ctx context.Context) error {
	var version int
	found := s.db.QueryRowContext(ctx, "SELECT version FROM quota_schema").Scan(&version)
	if found == nil && version == len(migrations()) && s.hasDetails(ctx) {
		return nil
	}
	return s.inTransaction(ctx, s.migrateWithin)
}

func (s *Store) migrateWithin(ctx context.Context, tx *sql.Tx) error {
	var wrong error
	exec := func(statement string, args ...any) {
		if wrong == nil {
			_, wrong = tx.ExecContext(ctx, statement, args...)
		}
	}
	if s.postgres {
		exec("SELECT pg_advisory_xact_lock($1)", lockNumber)
	}
	exec("CREATE TABLE IF NOT EXISTS quota_schema (version BIGINT NOT NULL)")
	exec("INSERT INTO quota_schema (version) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM quota_schema)")
	if wrong != nil {
		return wrong
	}
	var version int
	if err := tx.QueryRowContext(ctx, "SELECT version FROM quota_schema").Scan(&version); err != nil {
		return err
	}
	steps := migrations()
	if version > len(steps) {
		return ErrNewer
	}
	for _, step := range append(steps[version:], detailTable) {
		if !s.postgres {
			step += " WITHOUT ROWID"
		}
		exec(step)
	}
	exec(fmt.Sprintf("UPDATE quota_schema SET version = %d", len(steps)))
	return wrong
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

// hasDetails reports whether the table of details is there.
func (s *Store) hasDetails(ctx context.Context) bool {
	_, err := s.db.ExecContext(ctx, "SELECT 1 FROM quota_detail WHERE window_start < 0")
	return err == nil
}
