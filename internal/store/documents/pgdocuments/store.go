// Package pgdocuments keeps documents in PostgreSQL, where several gateways share them.
package pgdocuments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
)

// timeout bounds every call of the database, including the wait for earlier calls: a
// request waits for the answer.
const timeout = 3 * time.Second

const table = "patchbay_documents"

// tables returns the table of the documents.
func tables() postgres.Tables {
	return postgres.Tables{Last: table, Lock: 7_284_113_908, Make: []string{
		`CREATE TABLE IF NOT EXISTS patchbay_documents (
			kind    TEXT NOT NULL,
			id      TEXT COLLATE "C" NOT NULL,
			scope   TEXT NOT NULL,
			created TIMESTAMPTZ NOT NULL,
			is_open BOOLEAN NOT NULL,
			bytes   BIGINT NOT NULL,
			version BIGINT NOT NULL,
			changed TIMESTAMPTZ NOT NULL,
			data    TEXT NOT NULL,
			PRIMARY KEY (kind, id)
		)`,
		"CREATE INDEX IF NOT EXISTS patchbay_documents_scope ON patchbay_documents (kind, scope, created, id)",
		"CREATE INDEX IF NOT EXISTS patchbay_documents_open ON patchbay_documents (kind, created, id) WHERE is_open",
	}}
}

// Store is documents in PostgreSQL.
type Store struct{ database *postgres.Database }

var _ documents.Store = (*Store)(nil)

// New returns the store in the PostgreSQL at an address. It connects when it is used. The
// error never repeats the address, which may hold a password.
func New(address string) (*Store, error) {
	database, err := postgres.New(address, timeout, tables())
	if err != nil {
		return nil, fmt.Errorf("store.config: %w", err)
	}
	return &Store{database}, nil
}

// Open returns the documents in the PostgreSQL at an address or, if it is empty, in a folder, and the function
// that closes them.
func Open(address, folder string, log *slog.Logger) (documents.Store, func(), error) {
	if address == "" {
		local, err := documents.OpenDir(folder, log)
		return local, func() {}, err
	}
	shared, err := New(address)
	if err != nil {
		return nil, nil, err
	}
	return shared, shared.Close, nil
}

// Close closes the connection.
func (s *Store) Close() { s.database.Close() }

// use calls a function with the connection. An error that is about a document is an answer of
// the database, which goes on being used.
func (s *Store) use(ctx context.Context, do func(ctx context.Context, conn *pgx.Conn) error) error {
	var answer error
	err := s.database.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := do(ctx, conn)
		if errors.Is(err, documents.ErrNotFound) || errors.Is(err, documents.ErrChanged) {
			answer, err = err, nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", documents.ErrUnavailable, err)
	}
	return answer
}

// columnsWith returns the columns of a document to read, with its data or something in
// its place.
func columnsWith(data string) string {
	return "id, scope, created, is_open, bytes, version, " + data +
		", extract(epoch FROM clock_timestamp() - changed)::float8"
}

func scan(kind string, row pgx.Row) (documents.Document, error) {
	doc := documents.Document{Kind: kind}
	var data string
	var age float64
	err := row.Scan(&doc.ID, &doc.Scope, &doc.Created, &doc.IsOpen, &doc.Bytes, &doc.Version, &data, &age)
	doc.Data, doc.Age = []byte(data), max(0, time.Duration(age*float64(time.Second)))
	return doc, err
}

// Get returns a document, or documents.ErrNotFound.
func (s *Store) Get(ctx context.Context, kind, id string) (doc documents.Document, err error) {
	err = s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		doc, err = scan(kind, conn.QueryRow(ctx, "SELECT "+columnsWith("data")+
			" FROM patchbay_documents WHERE kind = $1 AND id = $2", kind, id))
		if errors.Is(err, pgx.ErrNoRows) {
			return documents.ErrNotFound
		}
		return err
	})
	return doc, err
}

// List returns documents in their order.
func (s *Store) List(ctx context.Context, q documents.Query) (found []documents.Document, err error) {
	order, beyond := "DESC", "<"
	if q.IsAscending {
		order, beyond = "ASC", ">"
	}
	data := "data"
	if q.OnlyNames {
		data = "''"
	}
	text, args := "SELECT "+columnsWith(data)+" FROM patchbay_documents WHERE kind = $1", []any{q.Kind}
	if len(q.Scopes) > 0 {
		args = append(args, q.Scopes)
		text += fmt.Sprintf(" AND scope = ANY($%d)", len(args))
	}
	if q.OnlyOpen {
		text += " AND is_open"
	}
	err = s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if q.After != "" {
			var created time.Time
			err := conn.QueryRow(ctx, "SELECT created FROM patchbay_documents WHERE kind = $1 AND id = $2", q.Kind,
				q.After).Scan(&created)
			if errors.Is(err, pgx.ErrNoRows) {
				created, err = q.PlaceOfDeleted()
			}
			if err != nil {
				return err
			}
			args = append(args, created, q.After)
			text += fmt.Sprintf(" AND (created, id) %s ($%d, $%d)", beyond, len(args)-1, len(args))
		}
		text += fmt.Sprintf(" ORDER BY created %s, id %s", order, order)
		if q.Limit > 0 {
			text += fmt.Sprintf(" LIMIT %d", q.Limit)
		}
		rows, err := conn.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (documents.Document,
			error) {
			return scan(q.Kind, row)
		})
		return err
	})
	return found, err
}

// Put stores a document and returns its new version.
func (s *Store) Put(ctx context.Context, doc documents.Document) (int64, error) {
	if err := documents.CheckName(doc.Kind, doc.ID); err != nil {
		return 0, err
	}
	args := []any{doc.Kind, doc.ID, doc.Scope, doc.Created, doc.IsOpen, doc.Bytes, string(doc.Data)}
	text := `INSERT INTO patchbay_documents (kind, id, scope, created, is_open, bytes, version, changed, data)
		VALUES ($1, $2, $3, $4, $5, $6, 1, clock_timestamp(), $7) ON CONFLICT DO NOTHING`
	if doc.Version > 0 {
		args = append(args, doc.Version)
		text = `UPDATE patchbay_documents SET scope = $3, created = $4, is_open = $5, bytes = $6, data = $7,
			version = version + 1, changed = clock_timestamp() WHERE kind = $1 AND id = $2 AND version = $8`
	}
	err := s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		done, err := conn.Exec(ctx, text, args...)
		if err == nil && done.RowsAffected() == 0 {
			return documents.ErrChanged
		}
		return err
	})
	return doc.Version + 1, err
}

// Delete removes a document.
func (s *Store) Delete(ctx context.Context, kind, id string) error {
	return s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DELETE FROM patchbay_documents WHERE kind = $1 AND id = $2", kind, id)
		return err
	})
}

// Use returns the use of a kind in a scope, and the use of the whole kind.
func (s *Store) Use(ctx context.Context, kind, scope string) (own, all documents.Use, err error) {
	err = s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(
			ctx, `SELECT count(*) FILTER (WHERE scope = $2), coalesce(sum(bytes) FILTER (WHERE scope = $2), 0)::bigint,
			count(*), coalesce(sum(bytes), 0)::bigint FROM patchbay_documents WHERE kind = $1`, kind, scope).
			Scan(&own.Count, &own.Bytes, &all.Count, &all.Bytes)
	})
	return own, all, err
}

// Uses returns the use of a kind in each scope.
func (s *Store) Uses(ctx context.Context, kind string) (map[string]documents.Use, error) {
	uses := map[string]documents.Use{}
	err := s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT scope, count(*), sum(bytes)::bigint FROM patchbay_documents WHERE kind "+
			"= $1 GROUP BY scope", kind)
		if err != nil {
			return err
		}
		var scope string
		var use documents.Use
		_, err = pgx.ForEachRow(rows, []any{&scope, &use.Count, &use.Bytes}, func() error {
			uses[scope] = use
			return nil
		})
		return err
	})
	return uses, err
}
