package sqlstore

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	errScheme   = errors.New("must begin with sqlite: or postgres://")
	errFile     = errors.New("needs the path of a file, such as sqlite:quota.db")
	errPostgres = errors.New("is not an address of PostgreSQL, such as postgres://user:password@host:5432/database")
)

// Check returns an error if an address cannot be parsed. The error never contains
// the address, which may hold a password.
func Check(address string) error {
	if path, isFile := fileOf(address); isFile {
		if path == "" || path == "." || path == "/" || strings.ContainsRune(path, 0) {
			return errFile
		}
		return nil
	}
	if !isServer(address) {
		return errScheme
	}
	if _, err := pgx.ParseConfig(address); err != nil {
		return errPostgres
	}
	return nil
}

// CheckServer is Check for addresses that must lead to a PostgreSQL server.
func CheckServer(address string) error {
	if !isServer(address) {
		return errors.New("must begin with postgres://")
	}
	return Check(address)
}

func isServer(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// fileOf returns the path of a SQLite database as it was written.
func fileOf(address string) (path string, isFile bool) {
	path, isFile = strings.CutPrefix(address, "sqlite:")
	return strings.TrimPrefix(path, "//"), isFile
}
