package pglog

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Copy is the content of a log as it is stored, apart from its versions.
type Copy struct {
	Head          versions.Head
	HeadSignature string
	Values        map[string]seal.Stored // of each the first signature is stored
}

// Stored is a version as it is stored.
type Stored struct {
	Number    int
	Text      []byte
	Signature string
}

// Read reads a log in a transaction, and calls a function with each version. A database without a log has
// the zero Copy; a nil function reads no versions.
func Read(ctx context.Context, tx *sql.Tx, visit func(Stored) error) (c Copy, err error) {
	err = postgres.Query(ctx, tx, "patchbay_config_current",
		"SELECT log, revision, version, newest, source FROM patchbay_config_current", func(row *sql.Rows) error {
			h := &c.Head
			return row.Scan(&h.Log, &h.Revision, &h.Version, &h.Newest, &h.Source)
		})
	texts := func(table, columns string) map[string]string {
		found := map[string]string{}
		if err == nil {
			err = postgres.Query(ctx, tx, table, "SELECT "+columns+" FROM "+table, func(row *sql.Rows) error {
				var name, text string
				err := row.Scan(&name, &text)
				found[name] = text
				return err
			})
		}
		return found
	}
	signatures := texts("patchbay_config_signatures", "name, signature")
	c.HeadSignature, c.Values = signatures[nameOf(versions.RecordHead)], map[string]seal.Stored{}
	for name, text := range texts("patchbay_config_values", "name, value") {
		value := seal.Stored{Data: []byte(text)}
		if signature := signatures[valuePrefix+name]; signature != "" {
			value.Signatures = []string{signature}
		}
		c.Values[name] = value
	}
	if err != nil || c.Head.Version == 0 || visit == nil {
		return c, err
	}
	return c, postgres.Query(ctx, tx, "patchbay_config_versions",
		"SELECT version, record FROM patchbay_config_versions ORDER BY version",
		func(row *sql.Rows) error {
			var v Stored
			if err := row.Scan(&v.Number, &v.Text); err != nil {
				return err
			}
			v.Signature = signatures[nameOf(versions.Record(v.Number))]
			return visit(v)
		})
}

// Mark returns the mark of a log in a transaction, the zero Mark if there is none.
func Mark(ctx context.Context, tx *sql.Tx) (m mark.Mark, err error) {
	err = postgres.Query(ctx, tx, "patchbay_format", readMark, func(row *sql.Rows) error {
		text := ""
		if err := row.Scan(&text); err != nil || text == "" {
			return err
		}
		m, err = mark.Read([]byte(text))
		return err
	})
	return m, err
}

// IsSigned reports whether a log has signatures with the current one of the keys.
func IsSigned(ctx context.Context, tx *sql.Tx, keys *seal.Keys) (is bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM patchbay_config_signatures "+
		"WHERE position($1 IN signature) > 0)", keys.ID()).Scan(&is)
	return is, err
}

// SetMark writes the mark of a log.
func SetMark(ctx context.Context, tx *sql.Tx, m mark.Mark) error {
	_, err := tx.ExecContext(ctx, writeMark, string(m.Text()))
	return err
}

// Check returns an error unless the log is empty or is signed with keys.
func Check(ctx context.Context, tx *sql.Tx, keys *seal.Keys) error {
	m, err := Mark(ctx, tx)
	if err != nil {
		return err
	}
	log, err := Read(ctx, tx, nil)
	return cmp.Or(err, checkMark(m, log.Head.Log != "", keys))
}

// Make makes the tables that are missing, in a transaction.
func Make(ctx context.Context, tx *sql.Tx) (err error) {
	for _, statement := range tables().Make {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement)
		}
	}
	return err
}

// Lock keeps gateways away from the log until the transaction ends.
func Lock(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "LOCK TABLE patchbay_config_current IN ACCESS EXCLUSIVE MODE")
	return err
}

// Replace replaces the content of a log. The function each calls add with each version.
func (c *Copy) Replace(ctx context.Context, tx *sql.Tx, each func(add func(Stored) error) error) (err error) {
	exec := func(statement string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement, args...)
		}
	}
	for _, table := range []string{"current", "versions", "values", "signatures"} {
		exec("DELETE FROM patchbay_config_" + table)
	}
	sign := func(name, signature string) {
		if signature != "" {
			exec("INSERT INTO patchbay_config_signatures (name, signature) VALUES ($1, $2)", name, signature)
		}
	}
	if err != nil {
		return err
	}
	err = each(func(v Stored) error {
		var about struct {
			CreatedAt time.Time `json:"createdAt"`
			Origin    string    `json:"origin"`
			Author    string    `json:"author"`
			Summary   string    `json:"summary"`
		}
		if err := json.Unmarshal(v.Text, &about); err != nil {
			return fmt.Errorf("version %d: %w", v.Number, err)
		}
		exec(insertVersion, v.Number, about.CreatedAt, plain(about.Origin), plain(about.Author), plain(about.Summary),
			string(v.Text))
		sign(nameOf(versions.Record(v.Number)), v.Signature)
		return err
	})
	for i, name := range slices.Sorted(maps.Keys(c.Values)) {
		exec("INSERT INTO patchbay_config_values (name, revision, value) VALUES ($1, $2, $3)", name, i+1,
			string(c.Values[name].Data))
		for _, signature := range c.Values[name].Signatures[:min(1, len(c.Values[name].Signatures))] {
			sign(valuePrefix+name, signature)
		}
	}
	h := c.Head
	exec("INSERT INTO patchbay_config_current (log, revision, version, newest, source) VALUES ($1, $2, $3, $4, $5)",
		h.Log, h.Revision, h.Version, h.Newest, h.Source)
	sign(nameOf(versions.RecordHead), c.HeadSignature)
	return err
}
