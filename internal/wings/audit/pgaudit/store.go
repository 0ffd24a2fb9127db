// Package pgaudit keeps the records of the audit in PostgreSQL, where gateways share their
// configuration. Each gateway writes a chain of its own.
package pgaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/store/postgres"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

const (
	// timeout bounds every call of the database, including the wait for earlier calls; reading
	// everything may take longer.
	timeout     = 3 * time.Second
	readTimeout = 10 * time.Second
	longTimeout = 5 * time.Minute
)

const restores = `CREATE TABLE IF NOT EXISTS patchbay_audit_restores (time TEXT COLLATE "C" NOT NULL,
	made TEXT NOT NULL)`

// NoteRestore notes a restore of the database, whose tables of the audit may not exist yet.
func NoteRestore(ctx context.Context, tx *sql.Tx, note audit.Restored) error {
	_, err := tx.ExecContext(ctx, restores)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO patchbay_audit_restores (time, made) VALUES ($1, $2)", note.Time,
			note.Made)
	}
	return err
}

// tables returns the tables of the audit.
func tables() postgres.Tables {
	return postgres.Tables{Last: "patchbay_audit_marks", Lock: 7_284_113_911, Make: []string{
		`CREATE TABLE IF NOT EXISTS patchbay_audit (
			gateway   TEXT NOT NULL,
			chain     INTEGER NOT NULL,
			seq       BIGINT NOT NULL,
			time      TEXT COLLATE "C" NOT NULL,
			who       TEXT NOT NULL,
			role      TEXT NOT NULL,
			address   TEXT NOT NULL,
			action    TEXT NOT NULL,
			object    TEXT NOT NULL,
			result    TEXT NOT NULL,
			tenant    TEXT NOT NULL,
			previous  TEXT NOT NULL,
			hash      TEXT NOT NULL,
			count     BIGINT NOT NULL,
			last      TEXT NOT NULL,
			cause     TEXT NOT NULL,
			keep      BIGINT NOT NULL,
			until     TEXT NOT NULL,
			signature TEXT NOT NULL,
			PRIMARY KEY (gateway, chain, seq)
		)`,
		"CREATE INDEX IF NOT EXISTS patchbay_audit_time ON patchbay_audit (time)",
		"CREATE INDEX IF NOT EXISTS patchbay_audit_tenant ON patchbay_audit (tenant, time) WHERE tenant <> ''",
		"CREATE TABLE IF NOT EXISTS patchbay_audit_intents (id TEXT PRIMARY KEY, gateway TEXT NOT NULL, " +
			"record TEXT NOT NULL)",
		`CREATE TABLE IF NOT EXISTS patchbay_audit_heads (gateway TEXT NOT NULL, seq BIGINT NOT NULL,
			hash TEXT NOT NULL, time TEXT COLLATE "C" NOT NULL, signature TEXT NOT NULL)`,
		"CREATE INDEX IF NOT EXISTS patchbay_audit_heads_time ON patchbay_audit_heads (time)",
		"CREATE TABLE IF NOT EXISTS patchbay_audit_keys (gateway TEXT NOT NULL, id TEXT NOT NULL, " +
			"record TEXT NOT NULL, PRIMARY KEY (gateway, id))",
		restores,
		"CREATE TABLE IF NOT EXISTS patchbay_audit_marks (gateway TEXT PRIMARY KEY, last TEXT NOT NULL)",
	}}
}

// Store is the audit in PostgreSQL.
type Store struct{ *postgres.Database }

var _ audit.Store = Store{}

// New returns the store in the PostgreSQL at an address. It connects when it is used. The error
// never repeats the address, which may hold a password.
func New(address string) (Store, error) {
	database, err := postgres.New(address, timeout, tables())
	return Store{database}, err
}

// columns are those of a record, in the order of values and scan.
const columns = "seq, time, gateway, who, role, address, action, object, result, tenant, previous, hash, " +
	"count, last, cause, keep, until, signature"

func fields(r *audit.Record) []any {
	return []any{&r.Seq, &r.Time, &r.Gateway, &r.Who, &r.Role, &r.Address, &r.Action, &r.Object, &r.Result, &r.Tenant,
		&r.Previous, &r.Hash, &r.Count, &r.Last, &r.Cause, &r.Keep, &r.Until, &r.Signature}
}

func scan(row pgx.CollectableRow) (r audit.Record, err error) {
	err = row.Scan(fields(&r)...)
	return r, err
}

// one ignores that there is no row.
func one(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// KeepsMarks reports that a column of the gateway's row keeps the mark of its chain.
func (s Store) KeepsMarks() bool { return true }

const setMark = "INSERT INTO patchbay_audit_marks (gateway, last) VALUES ($1, $2) " +
	"ON CONFLICT (gateway) DO UPDATE SET last = excluded.last"

// SetMark keeps the mark of a chain.
func (s Store) SetMark(ctx context.Context, name, mark string) error {
	return s.Exec(ctx, setMark, name, mark)
}

// Load returns the end of the chain that a gateway writes.
func (s Store) Load(ctx context.Context, gateway string) (state audit.State, err error) {
	err = s.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		state = audit.State{}
		r, h := &state.Last, &state.Head
		err := one(conn.QueryRow(ctx, "SELECT chain, "+columns+" FROM patchbay_audit WHERE gateway = $1 "+
			"ORDER BY chain DESC, seq DESC LIMIT 1", gateway).Scan(append([]any{&state.Chain}, fields(r)...)...))
		if err == nil && state.Chain > 0 {
			err = conn.QueryRow(ctx, "SELECT time FROM patchbay_audit WHERE gateway = $1 AND chain = $2 ORDER BY seq "+
				"LIMIT 1", gateway, state.Chain).Scan(&state.First)
			if _, fault := audit.Read(r.Line()); fault != nil {
				state.Fault = "its last record does not hold: " + fault.Error()
			}
		}
		if err == nil {
			err = one(conn.QueryRow(ctx, "SELECT gateway, seq, hash, time, signature FROM patchbay_audit_heads WHERE "+
				"gateway = $1 ORDER BY time DESC, seq DESC LIMIT 1", gateway).Scan(&h.Gateway, &h.Seq, &h.Hash, &h.Time,
				&h.Signature))
		}
		if err == nil {
			err = one(conn.QueryRow(ctx, "SELECT time, made FROM patchbay_audit_restores ORDER BY time DESC LIMIT 1").
				Scan(&state.Restored.Time, &state.Restored.Made))
		}
		if err == nil {
			err = one(conn.QueryRow(ctx, "SELECT last FROM patchbay_audit_marks WHERE gateway = $1", gateway).
				Scan(&state.Mark))
		}
		if err == nil {
			state.Intents, err = intentsOf(ctx, conn, gateway)
		}
		return err
	})
	return state, err
}

func intentsOf(ctx context.Context, conn *pgx.Conn, gateway string) ([]audit.Intent, error) {
	rows, err := conn.Query(ctx, "SELECT id, record FROM patchbay_audit_intents WHERE gateway = $1", gateway)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (intent audit.Intent, err error) {
		var text string
		if err = row.Scan(&intent.ID, &text); err == nil {
			err = json.Unmarshal([]byte(text), &intent.Record)
		}
		return intent, err
	})
}

// Intend keeps an intent.
func (s Store) Intend(ctx context.Context, intent audit.Intent) error {
	text, err := json.Marshal(intent.Record)
	if err != nil {
		return err
	}
	return s.Exec(ctx, "INSERT INTO patchbay_audit_intents (id, gateway, record) VALUES ($1, $2, $3)", intent.ID,
		intent.Record.Gateway, string(text))
}

// Append adds records to a chain, with its mark, and forgets intents, in one transaction.
func (s Store) Append(ctx context.Context, b audit.Batch) error {
	return s.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			if b.Mark != "" {
				batch.Queue(setMark, b.Name, b.Mark)
			}
			for i := range b.Records {
				batch.Queue("INSERT INTO patchbay_audit ("+columns+", chain) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "+
					"$9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)", append(fields(&b.Records[i]), b.Chain)...)
			}
			if len(b.Done) > 0 {
				batch.Queue("DELETE FROM patchbay_audit_intents WHERE id = ANY($1)", b.Done)
			}
			return tx.SendBatch(ctx, batch).Close()
		})
	})
}

// apart calls a function with a connection of its own, because it may take longer than writers wait.
func (s Store) apart(ctx context.Context, longest time.Duration, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	conn, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(ctx, conn)
}

// Search returns the newest records that a query asks for.
func (s Store) Search(ctx context.Context, q audit.Query) (found []audit.Record, total int, err error) {
	where, args := "TRUE", []any{}
	add := func(condition, value string) {
		args = append(args, value)
		where += " AND " + strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(args)))
	}
	if q.From != "" {
		add("time >= $", q.From)
	}
	if q.To != "" {
		add("time < $", q.To)
	}
	if q.Who != "" {
		add("position(lower($) IN lower(who)) > 0", q.Who)
	}
	if q.What != "" {
		add("(position(lower($) IN lower(action)) > 0 OR position(lower($) IN lower(object)) > 0 OR "+
			"position(lower($) IN lower(result)) > 0)", q.What)
	}
	if q.Tenants != nil {
		args = append(args, q.Tenants)
		where += fmt.Sprintf(" AND tenant <> '' AND tenant = ANY($%d)", len(args))
	}
	err = s.apart(ctx, readTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		if q.Counts {
			err := conn.QueryRow(ctx, "SELECT count(*) FROM patchbay_audit WHERE "+where, args...).Scan(&total)
			if err != nil {
				return err
			}
		}
		rows, err := conn.Query(ctx, fmt.Sprintf("SELECT %s FROM patchbay_audit WHERE %s ORDER BY time DESC, gateway, "+
			"chain DESC, seq DESC LIMIT %d OFFSET %d", columns, where, q.Limit, q.Skip), args...)
		if err == nil {
			found, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	return found, total, err
}

// Each calls a function with all records, chain by chain.
func (s Store) Each(ctx context.Context, visit func(chain int, line []byte) error) error {
	return s.apart(ctx, longTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT chain, "+columns+" FROM patchbay_audit ORDER BY gateway, chain, seq")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var chain int
			var r audit.Record
			if err := rows.Scan(append([]any{&chain}, fields(&r)...)...); err != nil {
				return err
			}
			line := r.Line()
			if err := visit(chain, line[:len(line)-1]); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// After returns the records of a chain behind a number.
func (s Store) After(ctx context.Context, gateway string, chain int, seq int64, limit int) (found []audit.Record,
	err error) {
	err = s.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT "+columns+" FROM patchbay_audit WHERE gateway = $1 AND chain = $2 AND "+
			"seq > $3 ORDER BY seq LIMIT $4", gateway, chain, seq, limit)
		if err == nil {
			found, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	return found, err
}

// Heads returns the newest heads of all gateways.
func (s Store) Heads(ctx context.Context, limit int) (heads []audit.Head, err error) {
	err = s.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		text := "SELECT gateway, seq, hash, time, signature FROM patchbay_audit_heads ORDER BY time DESC, seq DESC"
		if limit > 0 {
			text += fmt.Sprintf(" LIMIT %d", limit)
		}
		rows, err := conn.Query(ctx, text)
		if err == nil {
			heads, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h audit.Head, err error) {
				err = row.Scan(&h.Gateway, &h.Seq, &h.Hash, &h.Time, &h.Signature)
				return h, err
			})
		}
		return err
	})
	return heads, err
}

// AddHead adds a head.
func (s Store) AddHead(ctx context.Context, h audit.Head) error {
	return s.Exec(ctx, "INSERT INTO patchbay_audit_heads (gateway, seq, hash, time, signature) VALUES "+
		"($1, $2, $3, $4, $5)", h.Gateway, h.Seq, h.Hash, h.Time, h.Signature)
}

// Keys returns the public keys of all gateways.
func (s Store) Keys(ctx context.Context) (keys []audit.PublicKey, err error) {
	err = s.Use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT record FROM patchbay_audit_keys ORDER BY gateway, "+
			"record::json->>'since', id")
		if err == nil {
			keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (key audit.PublicKey, err error) {
				var text string
				if err = row.Scan(&text); err == nil {
					err = json.Unmarshal([]byte(text), &key)
				}
				return key, err
			})
		}
		return err
	})
	return keys, err
}

// SetKey adds or changes a public key.
func (s Store) SetKey(ctx context.Context, key audit.PublicKey) error {
	text, err := json.Marshal(key)
	if err != nil {
		return err
	}
	return s.Exec(ctx, "INSERT INTO patchbay_audit_keys (gateway, id, record) VALUES ($1, $2, $3) "+
		"ON CONFLICT (gateway, id) DO UPDATE SET record = excluded.record", key.Gateway, key.ID, string(text))
}

// Old returns the beginnings of all chains that have only records from before a time, or that have
// to be removed for the newer records of all gateways to fit.
func (s Store) Old(ctx context.Context, before time.Time, room int64) (spans []audit.Span, err error) {
	// A row takes more than its values, in its page and in three indexes.
	const sized = `SELECT time,
			sum(pg_column_size(a.*) + 200) OVER (ORDER BY time DESC, gateway, chain, seq DESC) AS size
		FROM patchbay_audit a WHERE (gateway LIKE '%/low') = $1`
	const young = "SELECT coalesce(max(size), 0), coalesce((SELECT max(time) FROM sized WHERE size > $2), '') " +
		"FROM sized WHERE size <= $2"
	// The records behind the first young one stay, whatever their time. So does the last one of
	// each chain, which its gateway goes on from.
	const old = `SELECT a.gateway, a.chain, a.seq, a.hash, a.time FROM patchbay_audit a JOIN (
			SELECT gateway, chain, least(min(seq) FILTER (WHERE time > $2 AND time >= $1), max(seq)) - 1 AS last
			FROM patchbay_audit WHERE (gateway LIKE '%/low') = $3 GROUP BY gateway, chain
		) o ON a.gateway = o.gateway AND a.chain = o.chain AND a.seq = o.last`
	err = s.apart(ctx, longTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		spans = nil
		left := room / 2
		for _, isLow := range []bool{true, false} {
			var used int64
			var full string
			err := conn.QueryRow(ctx, "WITH sized AS ("+sized+") "+young, isLow, left).Scan(&used, &full)
			if err != nil {
				return err
			}
			rows, err := conn.Query(ctx, old, audit.Stamp(before), full, isLow)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (span audit.Span, err error) {
				err = row.Scan(&span.Gateway, &span.Chain, &span.Last, &span.Hash, &span.Time)
				return span, err
			})
			if err != nil {
				return err
			}
			spans, left = append(spans, found...), room-used
		}
		return nil
	})
	return spans, err
}

// Remove removes the records of a span, and heads that are older than all records.
func (s Store) Remove(ctx context.Context, span audit.Span) error {
	if err := s.Exec(ctx, "DELETE FROM patchbay_audit WHERE gateway = $1 AND chain = $2 AND seq <= $3", span.Gateway,
		span.Chain, span.Last); err != nil {
		return err
	}
	return s.Exec(ctx, "DELETE FROM patchbay_audit_heads WHERE gateway = $1 AND time < $2", span.Gateway, span.Time)
}
