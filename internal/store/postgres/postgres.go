// Package postgres connects to a PostgreSQL database when it is used, and makes the tables
// that its user keeps there.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Tables are the tables of one user of the database.
type Tables struct {
	Last string   // the table that is made last: where it exists, all exist
	Lock int64    // the advisory lock of a gateway that makes them
	Make []string // the statements that make them
}

// Database is a database with one connection, for one call at a time.
type Database struct {
	config  *pgx.ConnConfig
	tables  Tables
	timeout time.Duration
	turn    chan struct{} // holds a token while the connection is not in use
	conn    *pgx.Conn     // nil before the first use, and after an error
}

// New returns the database at an address. The timeout bounds every call, including the wait
// for earlier calls. The error never repeats the address, which may hold a password.
func New(address string, timeout time.Duration, tables Tables) (*Database, error) {
	config, err := Parse(address, timeout)
	if err != nil {
		return nil, err
	}
	d := &Database{config: config, tables: tables, timeout: timeout, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d, nil
}

// Parse returns how to connect to an address within a time. The error never repeats the address.
func Parse(address string, timeout time.Duration) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the address of the database cannot be read")
	}
	config.ConnectTimeout = timeout
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "patchbay"
	}
	return config, nil
}

// Close closes the connection. The next use opens it again.
func (d *Database) Close() {
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	d.drop()
}

// drop closes the connection. It does not wait for a database that hangs.
func (d *Database) drop() {
	if d.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), d.timeout/10)
		defer cancel()
		_ = d.conn.Close(ctx)
	}
	d.conn = nil
}

// Use calls a function with the connection. After an error the next call connects again.
func (d *Database) Use(ctx context.Context, do func(ctx context.Context, conn *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	select {
	case <-d.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if d.conn == nil || d.conn.IsClosed() {
		conn, err := d.Connect(ctx)
		if err != nil {
			return err
		}
		d.conn = conn
	}
	err := do(ctx, d.conn)
	if err != nil {
		d.drop()
	}
	return err
}

// Exec runs a statement.
func (d *Database) Exec(ctx context.Context, statement string, args ...any) error {
	return d.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement, args...)
		return err
	})
}

// Connect opens a connection beside the one of Use, for calls that may take long. The caller
// closes it.
func (d *Database) Connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, err
	}
	if err := d.tables.Add(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// Add makes the tables that are missing. If none is, the right to make tables is not
// needed.
func (t *Tables) Add(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", t.Last).Scan(&exists)
	if err != nil || exists {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		lock := fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", t.Lock)
		for _, statement := range append([]string{lock}, t.Make...) {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
