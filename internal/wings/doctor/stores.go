package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
)

// redis asks the server of the shared counters, where they are in use.
func (e *examination) redis(ctx context.Context) []Finding {
	const area = "redis"
	if !e.Document.NamesRedis && e.Document.Redis == config.Default().Redis && !e.Document.Quota.Distributed.Enabled {
		return []Finding{skip(area, "not in use")}
	}
	ctx, cancel := context.WithTimeout(ctx, e.CheckTime)
	defer cancel()
	start := time.Now()
	client, err := redis.Connect(ctx, e.Document.Redis.URL)
	if err == nil {
		defer client.Close()
		start = time.Now()
		err = client.Do(ctx, client.B().Ping().Build()).Error()
	}
	if err != nil {
		return []Finding{fail(area, "start Redis, or correct redis.url: host, port, password and TLS (rediss://)",
			"it does not answer: %v", err)}
	}
	took := time.Since(start).Round(100 * time.Microsecond)
	if limit := time.Duration(e.Document.Quota.Distributed.Timeout); e.Document.Quota.Distributed.Enabled &&
		took > limit/2 {
		return []Finding{warn(area, "move it nearer, or raise quota.distributed.timeout",
			"it answers in %s, and quota.distributed.timeout is %s", took, limit)}
	}
	return []Finding{ok(area, "answers in %s", took)}
}

// database looks at the store of the quota ledger.
func (e *examination) database(ctx context.Context) []Finding {
	const area = "database"
	if !e.Document.Quota.Enabled && e.Document.Store.URL == config.Default().Store.URL {
		return []Finding{skip(area, "not in use: quota.enabled is false")}
	}
	path, isFile := strings.CutPrefix(e.Document.Store.URL, "sqlite:")
	if !isFile {
		return e.postgres(ctx, area, "store.url", e.Document.Store.URL)
	}
	if !filepath.IsAbs(path) {
		return []Finding{ok(area, "is the file %s in the data directory", path)}
	}
	return []Finding{writable(area, filepath.Dir(path))}
}

// sharedConfiguration looks at the database that joins gateways to a cluster.
func (e *examination) sharedConfiguration(ctx context.Context) []Finding {
	const area = "cluster"
	if e.Document.Store.Config == "" {
		return []Finding{skip(area, "this gateway shares its configuration with no other one (store.config)")}
	}
	return e.postgres(ctx, area, "store.config", e.Document.Store.Config)
}

// postgres reports whether a database can be used. Messages do not repeat the address,
// which may hold a password.
func (e *examination) postgres(ctx context.Context, area, setting, address string) []Finding {
	ctx, cancel := context.WithTimeout(ctx, e.CheckTime)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return []Finding{fail(area, "start PostgreSQL, or correct "+setting+
			": host, port, user, password, database and sslmode", "%s cannot be reached: %s", setting,
			postgresCause(err))}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	start := time.Now()
	var version string
	var isReplica, mayCreate, isInitialised bool
	var versions int
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), pg_is_in_recovery(),
		has_schema_privilege(current_schema(), 'CREATE'), to_regclass('patchbay_config_versions') IS NOT NULL`).
		Scan(&version, &isReplica, &mayCreate, &isInitialised)
	took := time.Since(start).Round(100 * time.Microsecond)
	if err == nil && isInitialised && area == "cluster" {
		err = conn.QueryRow(ctx, "SELECT count(*) FROM patchbay_config_versions").Scan(&versions)
	}
	switch {
	case err != nil:
		return []Finding{fail(area, "give the user of "+setting+" the right to read and write its tables",
			"%s cannot be read: %s", setting, postgresCause(err))}
	case isReplica:
		return []Finding{fail(area, "name the primary server in "+setting,
			"the server of %s is a replica, which cannot be written", setting)}
	case !mayCreate && !isInitialised:
		return []Finding{fail(area, "GRANT CREATE ON SCHEMA to the user of "+setting+", for the first start",
			"the user of %s may not make tables", setting)}
	case area == "cluster" && !isInitialised:
		return []Finding{ok(area, "PostgreSQL %s answers in %s; the first gateway that starts will share its "+
			"configuration", version, took)}
	case area == "cluster":
		return []Finding{ok(area, "PostgreSQL %s answers in %s and has %d versions", version, took, versions)}
	}
	return []Finding{ok(area, "PostgreSQL %s answers in %s", version, took)}
}

// postgresCause returns the cause of an error, without the address.
func postgresCause(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%s (%s)", refused.Message, refused.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it takes too long"
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		cause := errors.Unwrap(connect)
		for inner := cause; inner != nil; inner = errors.Unwrap(inner) {
			cause = inner
		}
		if cause != nil {
			first, _, _ := strings.Cut(cause.Error(), "\n")
			return first
		}
	}
	return "it cannot be used"
}
