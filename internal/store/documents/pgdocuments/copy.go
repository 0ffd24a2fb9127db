package pgdocuments

import (
	"context"
	"database/sql"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
)

// Each calls a function with the documents of some kinds in a database, in a transaction.
func Each(ctx context.Context, tx *sql.Tx, kinds []string, visit func(documents.Document) error) error {
	const text = `SELECT kind, id, scope, created, is_open, bytes, version, data FROM patchbay_documents
		WHERE kind = ANY($1) ORDER BY kind, created, id`
	return postgres.Query(ctx, tx, table, text, func(rows *sql.Rows) error {
		var doc documents.Document
		var data []byte
		if err := rows.Scan(&doc.Kind, &doc.ID, &doc.Scope, &doc.Created, &doc.IsOpen, &doc.Bytes, &doc.Version,
			&data); err != nil {
			return err
		}
		doc.Created, doc.Data = doc.Created.UTC(), data
		return visit(doc)
	}, kinds)
}

// Remove removes the documents of some kinds, in a transaction, and makes the table if it is missing.
func Remove(ctx context.Context, tx *sql.Tx, kinds []string) error {
	for _, statement := range tables().Make {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM patchbay_documents WHERE kind = ANY($1)", kinds)
	return err
}

// Merge adds a document in a transaction, unless there is one with its name that was created no earlier.
func Merge(ctx context.Context, tx *sql.Tx, doc documents.Document) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO patchbay_documents AS before
		(kind, id, scope, created, is_open, bytes, version, changed, data)
		VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), $8) ON CONFLICT (kind, id) DO UPDATE SET
		scope = excluded.scope, created = excluded.created, data = excluded.data, version = before.version + 1
		WHERE before.created < excluded.created`, doc.Kind, doc.ID, doc.Scope, doc.Created, doc.IsOpen, doc.Bytes,
		doc.Version, string(doc.Data))
	return err
}
