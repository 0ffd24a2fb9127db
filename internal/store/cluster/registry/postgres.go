// Package registry keeps the list of gateways in PostgreSQL.
package registry

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/postgres"
)

// timeout bounds every call of the database.
const timeout = 5 * time.Second

// Postgres is the list of gateways in the database of a shared configuration.
type Postgres struct{ *postgres.Database }

// NewPostgres returns the list in the PostgreSQL at an address. It connects when it is
// used. The error never repeats the address, which may hold a password.
func NewPostgres(address string) (Postgres, error) {
	database, err := postgres.New(address, timeout, postgres.Tables{Last: "patchbay_members", Lock: 7_284_113_907,
		Make: []string{
			"CREATE TABLE IF NOT EXISTS patchbay_members (id TEXT PRIMARY KEY, seen TIMESTAMPTZ NOT NULL, record " +
				"TEXT NOT NULL)",
		}})
	return Postgres{database}, err
}

// Announce stores a member and returns all.
func (p Postgres) Announce(ctx context.Context, self cluster.Member) (seen []cluster.Seen, err error) {
	err = p.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		seen, err = announce(ctx, conn, self)
		return err
	})
	return seen, err
}

func announce(ctx context.Context, conn *pgx.Conn, self cluster.Member) ([]cluster.Seen, error) {
	record, err := json.Marshal(self)
	if err != nil {
		return nil, err
	}
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`INSERT INTO patchbay_members (id, seen, record) VALUES ($1, now(), $2)
			ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, record = excluded.record`,
			[]any{self.ID, string(record)}},
		{`DELETE FROM patchbay_members WHERE seen < now() - make_interval(secs => $1)
			OR id IN (SELECT id FROM patchbay_members ORDER BY seen DESC OFFSET $2)`,
			[]any{cluster.KeepFor.Seconds(), cluster.MaxMembers}},
	} {
		if _, err := conn.Exec(ctx, statement.text, statement.args...); err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, "SELECT record, extract(epoch FROM now() - seen)::float8 FROM patchbay_members")
	if err != nil {
		return nil, err
	}
	var all []cluster.Seen
	var text string
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&text, &seconds}, func() error {
		all = appendSeen(all, []byte(text), time.Duration(seconds*float64(time.Second)))
		return nil
	})
	return all, err
}

// appendSeen adds a member, unless its record cannot be read. A record of a newer release
// may have more members, but never fewer.
func appendSeen(all []cluster.Seen, record []byte, ago time.Duration) []cluster.Seen {
	var m cluster.Member
	if err := json.Unmarshal(record, &m); err != nil || m.ID == "" {
		return all
	}
	return append(all, cluster.Seen{Member: m, Ago: max(0, ago)})
}

// Leave removes a member.
func (p Postgres) Leave(ctx context.Context, id string) error {
	return p.Exec(ctx, "DELETE FROM patchbay_members WHERE id = $1", id)
}

// Running returns the ids of the gateways that use a database.
func Running(ctx context.Context, tx *sql.Tx) (running []string, err error) {
	const text = "SELECT id FROM patchbay_members WHERE seen > now() - make_interval(secs => $1) ORDER BY id"
	err = postgres.Query(ctx, tx, "patchbay_members", text, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		running = append(running, id)
		return err
	}, cluster.AwayAfter.Seconds())
	return running, err
}
