package postgres

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

// InTransaction calls a function with a transaction on the database at an address. The error never
// repeats the address, which may hold a password.
func InTransaction(ctx context.Context, address string, options *sql.TxOptions, do func(*sql.Tx) error) (err error) {
	db, err := sql.Open("pgx", address)
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

// Query calls a function for each row of a query on a table; there is none if there is no such table.
func Query(ctx context.Context, tx *sql.Tx, table, text string, scan func(*sql.Rows) error, args ...any) error {
	isThere := false
	err := tx.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", table).Scan(&isThere)
	if err != nil || !isThere {
		return err
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	for rows.Next() && err == nil {
		err = scan(rows)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}
