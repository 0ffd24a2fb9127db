// Package registry has the stores where gateways announce themselves: PostgreSQL and
// Redis.
package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// Postgres is the list of gateways in the database of a shared configuration.
type Postgres struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil after an error
}

// tableLock is the advisory lock of a gateway that makes the table.
const tableLock = 7_284_113_907

// NewPostgres returns the list in the PostgreSQL at an address. It connects when it is
// used. The error never repeats the address, which may hold a password.
func NewPostgres(address string) (*Postgres, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errors.New("the address of the database cannot be read")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "patchbay"
	}
	return &Postgres{config: config}, nil
}

// Announce stores a member and returns all.
func (p *Postgres) Announce(ctx context.Context, self cluster.Member) ([]cluster.Seen, error) {
	seen, err := p.announce(ctx, self)
	if err != nil {
		p.Close()
	}
	return seen, err
}

func (p *Postgres) announce(ctx context.Context, self cluster.Member) ([]cluster.Seen, error) {
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
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
		if _, err := p.conn.Exec(ctx, statement.text, statement.args...); err != nil {
			return nil, err
		}
	}
	rows, err := p.conn.Query(ctx, "SELECT record, extract(epoch FROM now() - seen)::float8 FROM patchbay_members")
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

func (p *Postgres) connect(ctx context.Context) error {
	if p.conn != nil && !p.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return err
	}
	p.conn = conn
	var isThere bool
	err = conn.QueryRow(ctx, "SELECT to_regclass('patchbay_members') IS NOT NULL").Scan(&isThere)
	if err != nil || isThere {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range []string{
			fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", tableLock),
			"CREATE TABLE IF NOT EXISTS patchbay_members (id TEXT PRIMARY KEY, seen TIMESTAMPTZ NOT NULL, record " +
				"TEXT NOT NULL)",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// Leave removes a member.
func (p *Postgres) Leave(ctx context.Context, id string) error {
	if p.conn == nil {
		return nil
	}
	_, err := p.conn.Exec(ctx, "DELETE FROM patchbay_members WHERE id = $1", id)
	return err
}

// Close closes the connection. The next announcement opens it again.
func (p *Postgres) Close() {
	if p.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.conn.Close(ctx)
	}
	p.conn = nil
}
