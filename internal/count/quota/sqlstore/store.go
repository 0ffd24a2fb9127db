// Package sqlstore keeps the totals of the quota ledger in a database: SQLite in
// a file of the data directory, or PostgreSQL.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

// Store is a database with the totals of the ledger.
type Store struct {
	db       *sql.DB
	postgres bool
	// path is the file of a SQLite database, and file describes the file that was there
	// when it was opened.
	path string
	file os.FileInfo
}

// Open opens the database at an address: "sqlite:" and a path, which is inside
// the data directory if it is relative, or the address of a PostgreSQL server.
// Missing tables are created. Errors never contain the address, which may hold a
// password.
func Open(ctx context.Context, address, dataDir string) (*Store, error) {
	var s *Store
	var err error
	if path, isFile := File(address, dataDir); isFile {
		s, err = openSQLite(ctx, path)
	} else {
		s, err = openPostgres(address)
	}
	if err != nil {
		return nil, err
	}
	if err := s.create(ctx); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// File returns the file of a database at an address, and whether it is in one. A relative path
// is inside of the data directory.
func File(address, dataDir string) (path string, isFile bool) {
	path, isFile = fileOf(address)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dataDir, path)
	}
	return path, isFile
}

func openSQLite(ctx context.Context, path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// The file is created here, because SQLite would make it readable for everybody.
	// The other files of the database get the same mode.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	// Commits must be synced, because the journal is removed after them.
	where := url.URL{
		Scheme: "file", Path: path,
		RawQuery: "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)",
	}
	db, err := sql.Open("sqlite", where.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2) // one writes, one reads
	return &Store{db: db, path: path, file: info}, closeOnError(useWAL(ctx, db), db)
}

// checkFiles returns an error if SQLite writes to other files than the next process to
// open the database will find. SQLite itself does not notice.
func (s *Store) checkFiles() error {
	if s.file == nil {
		return nil
	}
	now, err := os.Stat(s.path)
	if err == nil {
		_, err = os.Stat(s.path + "-wal") // it is there while the database is open
	}
	switch {
	case err == nil && os.SameFile(now, s.file):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return quota.ErrReplaced
}

// useWAL enables write-ahead logging. Writes then do not block reads. It tries
// repeatedly, because several processes may open a new file at the same time.
func useWAL(ctx context.Context, db *sql.DB) error {
	const tries = 5
	var err error
	for try := range tries {
		if _, err = db.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err == nil {
			return nil
		}
		if ended := waiting.Pause(ctx, time.Duration(try+1)*20*time.Millisecond); ended != nil {
			return ended
		}
	}
	return err
}

func openPostgres(address string) (*Store, error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, errors.New("the address of the database cannot be read")
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(2)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return &Store{db: db, postgres: true}, nil
}

func closeOnError(err error, db *sql.DB) error {
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

const (
	// identity are the columns of the primary key. The time comes first, because rows
	// are read and removed by it, and then the most selective columns.
	identity = "window_start, window_type, user_id, tenant_id, api_key_id, model, service_type, writer"
	// counts are the other columns.
	counts = "request_count, token_count, prompt_count, completion_count, cost, updated_at"
	// columnCount is how many columns there are, and writeBatch how many rows
	// one statement writes.
	columnCount = 14
	writeBatch  = 250
)

// Write stores rows, each with the greater of the stored and the given values,
// all of them or none.
func (s *Store) Write(ctx context.Context, rows []quota.Row) error {
	err := s.inTransaction(ctx, func(ctx context.Context, tx *sql.Tx) error { return s.writeWithin(ctx, tx, rows) })
	if err != nil {
		return err
	}
	return s.checkFiles()
}

func (s *Store) writeWithin(ctx context.Context, tx *sql.Tx, rows []quota.Row) (err error) {
	now := time.Now().Unix()
	args := make([]any, 0, writeBatch*columnCount)
	var statement *sql.Stmt
	for prepared := 0; len(rows) > 0; {
		n := min(len(rows), writeBatch)
		if n != prepared {
			if statement, err = tx.PrepareContext(ctx, s.upsert(n)); err != nil {
				return err
			}
			prepared = n
		}
		args = args[:0]
		for i := range rows[:n] {
			r := &rows[i]
			args = append(args, r.Start.Unix(), r.Window.String(), r.Key.User, r.Key.Tenant, r.Key.APIKey,
				r.Key.Model, r.Key.Service.String(), r.Writer, r.Requests, r.Tokens,
				r.Prompt, r.Completion, r.Cost, now)
		}
		if _, err = statement.ExecContext(ctx, args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// upsert returns the statement that writes n rows. The counts only grow, the time of the last
// change too.
func (s *Store) upsert(n int) string {
	greater := "max"
	if s.postgres {
		greater = "greatest"
	}
	row := "(?" + strings.Repeat(",?", columnCount-1) + ")"
	statement := "INSERT INTO quota_usage (" + identity + ", " + counts + ") VALUES " + row +
		strings.Repeat(","+row, n-1) + " ON CONFLICT (" + identity + ") DO UPDATE SET "
	for i, column := range strings.Split(counts, ", ") {
		if i > 0 {
			statement += ", "
		}
		statement += fmt.Sprintf("%[1]s = %[2]s(quota_usage.%[1]s, excluded.%[1]s)", column, greater)
	}
	return s.numbered(statement)
}

// numbered returns a statement with its parameters in the syntax of the database. It is written with
// question marks, as in SQLite.
func (s *Store) numbered(statement string) string {
	if !s.postgres {
		return statement
	}
	parts := strings.Split(statement, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = "$" + strconv.Itoa(i) + parts[i]
	}
	return strings.Join(parts, "")
}

// Read returns the rows that match a filter.
func (s *Store) Read(ctx context.Context, filter quota.Filter) ([]quota.Row, error) {
	where, args := conditionOf(&filter)
	if where == "" {
		return nil, nil
	}
	end := " WHERE " + where
	if filter.Limit > 0 {
		newest := strings.Replace(identity, "window_start", "window_start DESC", 1)
		end += fmt.Sprintf(" ORDER BY %s LIMIT %d", newest, filter.Limit)
	}
	var rows []quota.Row
	err := s.each(ctx, end, args, func(row *quota.Row) error {
		rows = append(rows, *row)
		return nil
	})
	return rows, err
}

// Each calls a function with all rows, as they are at one moment.
func (s *Store) Each(ctx context.Context, visit func(*quota.Row) error) error {
	return s.each(ctx, "", nil, visit)
}

// each calls a function with the rows of a query that ends in a certain way.
func (s *Store) each(ctx context.Context, end string, args []any, visit func(*quota.Row) error) error {
	query := "SELECT " + identity + ", " + counts + " FROM quota_usage" + end
	found, err := s.db.QueryContext(ctx, s.numbered(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }() // found.Err returns the same error
	for found.Next() {
		var row quota.Row
		var window, service string
		var start, updated int64
		if err := found.Scan(&start, &window, &row.Key.User, &row.Key.Tenant, &row.Key.APIKey, &row.Key.Model, &service,
			&row.Writer, &row.Requests, &row.Tokens, &row.Prompt, &row.Completion, &row.Cost, &updated); err != nil {
			return err
		}
		var err error
		if row.Window, err = quota.ParseStoredWindow(window); err != nil {
			continue // a newer release has written it
		}
		if row.Key.Service, err = schema.ParseServiceType(service); err != nil {
			continue
		}
		row.Start = time.Unix(start, 0).UTC()
		if err := visit(&row); err != nil {
			return err
		}
	}
	return found.Err()
}

// Replace replaces all rows by those that a function writes, in one transaction, which that
// function may use as well. After an error the rows are as before.
func (s *Store) Replace(ctx context.Context, fill func(tx *sql.Tx, write func([]quota.Row) error) error) error {
	return s.inTransaction(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM quota_usage"); err != nil {
			return err
		}
		return fill(tx, func(rows []quota.Row) error { return s.writeWithin(ctx, tx, rows) })
	})
}

// conditionOf returns the SQL condition of a filter, or "" if no row can match.
func conditionOf(f *quota.Filter) (where string, args []any) {
	var windows []string
	for _, r := range f.Ranges {
		windows = append(windows, "window_type = ? AND window_start >= ? AND window_start < ?")
		args = append(args, r.Window.String(), ceil(r.From), ceil(r.To))
	}
	if len(windows) == 0 {
		return "", nil
	}
	where = "(" + strings.Join(windows, " OR ") + ")"
	if !f.Changed.IsZero() {
		where += " AND updated_at >= ?"
		args = append(args, f.Changed.Unix())
	}
	for _, part := range []struct{ column, value string }{
		{"tenant_id", f.Tenant}, {"api_key_id", f.APIKey}, {"user_id", f.User},
		{"service_type", f.Service}, {"model", f.Model},
	} {
		if part.value == "" {
			continue
		}
		where += " AND " + part.column + " = ?"
		args = append(args, part.value)
	}
	return where, args
}

// ceil returns the first whole second that is not before t.
func ceil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// Remove removes all rows of runs, or none.
func (s *Store) Remove(ctx context.Context, runs []quota.Row) error {
	return s.inTransaction(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		statement := s.numbered("DELETE FROM quota_usage WHERE window_start = ? AND window_type = ?" +
			" AND user_id = ? AND api_key_id = ?")
		for i := 0; i < len(runs) && err == nil; i++ {
			r := &runs[i]
			_, err = tx.ExecContext(ctx, statement, r.Start.Unix(), quota.BudgetRun.String(), r.Key.User, r.Key.APIKey)
		}
		return err
	})
}

// Expire removes at most limit rows of a window that began before a moment.
func (s *Store) Expire(ctx context.Context, window quota.Window, before time.Time, limit int) (int, error) {
	statement := s.numbered("DELETE FROM quota_usage WHERE (" + identity + ") IN (SELECT " + identity +
		" FROM quota_usage WHERE window_type = ? AND window_start < ? LIMIT ?)")
	result, err := s.db.ExecContext(ctx, statement, window.String(), before.Unix(), limit)
	if err != nil {
		return 0, err
	}
	removed, err := result.RowsAffected()
	return int(removed), err
}
