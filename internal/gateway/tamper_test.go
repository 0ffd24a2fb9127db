package gateway_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// intruder is somebody who can read and write what a gateway stores, and does not have
// its master key. A gateway of an older release writes versions in the same way.
type intruder interface {
	// record returns a version, as JSON.
	record(t *testing.T, number int) map[string]any
	// put stores a version, and setCurrent makes one the current one.
	put(t *testing.T, number int, record map[string]any)
	setCurrent(t *testing.T, number int)
	// signature returns that of a version, 0 for the head, and sign stores one, or removes
	// it where it is empty.
	signature(t *testing.T, number int) string
	sign(t *testing.T, number int, signature string)
	// unsign removes all signatures.
	unsign(t *testing.T)
}

// publish stores an edited copy of a version as the next one, and makes it current.
func publish(t *testing.T, by intruder, number int, edit func(instance map[string]any)) {
	t.Helper()
	record := by.record(t, number)
	edit(firstInstance(record))
	record["version"] = number + 1
	by.put(t, number+1, record)
	by.setCurrent(t, number+1)
}

// firstInstance returns the first instance for chat of a version.
func firstInstance(record map[string]any) map[string]any {
	chat := record["services"].(map[string]any)["chat"].(map[string]any)
	return chat["instances"].([]any)[0].(map[string]any)
}

func decode(t *testing.T, data string) map[string]any {
	t.Helper()
	var record map[string]any
	if err := json.Unmarshal([]byte(data), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

func encode(t *testing.T, record map[string]any) string {
	t.Helper()
	data, err := json.Marshal(record, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// onDisk is an intruder in the data directory of a gateway that does not run.
type onDisk struct{ dir string }

func (d onDisk) record(t *testing.T, number int) map[string]any {
	t.Helper()
	return decode(t, string(gatewaytest.ReadFile(t, gatewaytest.VersionFile(d.dir, number))))
}

func (d onDisk) put(t *testing.T, number int, record map[string]any) {
	t.Helper()
	gatewaytest.WriteFile(t, gatewaytest.VersionFile(d.dir, number), encode(t, record))
}

func (d onDisk) setCurrent(t *testing.T, number int) {
	t.Helper()
	name := filepath.Join(d.dir, "versions", "current.json")
	head := decode(t, string(gatewaytest.ReadFile(t, name)))
	head["version"] = number
	if newest, _ := head["newest"].(float64); int(newest) < number {
		head["newest"] = number
	}
	gatewaytest.WriteFile(t, name, encode(t, head))
}

func (d onDisk) signatureFile(number int) string {
	if number == 0 {
		return filepath.Join(d.dir, "versions", "current.sig")
	}
	return strings.TrimSuffix(gatewaytest.VersionFile(d.dir, number), ".json") + ".sig"
}

func (d onDisk) signature(t *testing.T, number int) string {
	t.Helper()
	return string(gatewaytest.ReadFile(t, d.signatureFile(number)))
}

func (d onDisk) sign(t *testing.T, number int, signature string) {
	t.Helper()
	if signature != "" {
		gatewaytest.WriteFile(t, d.signatureFile(number), signature)
	} else if err := os.Remove(d.signatureFile(number)); err != nil {
		t.Fatal(err)
	}
}

func (d onDisk) unsign(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(d.dir, "versions", "*.sig"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, name := range append(found, filepath.Join(d.dir, "keys.sealed.json")) {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// inPostgres is an intruder in the database of a shared configuration.
type inPostgres struct{ url string }

func (p inPostgres) do(t *testing.T, statement string, args ...any) {
	t.Helper()
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement, args...); err != nil {
		t.Fatal(err)
	}
}

func (p inPostgres) text(t *testing.T, query string, args ...any) (text string) {
	t.Helper()
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, query, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func (p inPostgres) record(t *testing.T, number int) map[string]any {
	t.Helper()
	return decode(t, p.text(t, "SELECT record FROM patchbay_config_versions WHERE version = $1", number))
}

func (p inPostgres) put(t *testing.T, number int, record map[string]any) {
	t.Helper()
	p.do(t, `INSERT INTO patchbay_config_versions (version, created_at, origin, author, summary, record) VALUES ($1, now(), 'api', 'x', 'x', $2)
		ON CONFLICT (version) DO UPDATE SET record = excluded.record`, number, encode(t, record))
}

func (p inPostgres) setCurrent(t *testing.T, number int) {
	t.Helper()
	p.do(t, "UPDATE patchbay_config_current SET version = $1, newest = greatest(newest, $1), revision = revision + 1", number)
	p.do(t, "SELECT pg_notify('patchbay_config', '')")
}

func signatureName(number int) string {
	if number == 0 {
		return "current"
	}
	return fmt.Sprintf("version/%d", number)
}

func (p inPostgres) signature(t *testing.T, number int) string {
	t.Helper()
	return p.text(t, "SELECT signature FROM patchbay_config_signatures WHERE name = $1", signatureName(number))
}

func (p inPostgres) sign(t *testing.T, number int, signature string) {
	t.Helper()
	p.do(t, "DELETE FROM patchbay_config_signatures WHERE name = $1", signatureName(number))
	if signature != "" {
		p.do(t, "INSERT INTO patchbay_config_signatures VALUES ($1, $2)", signatureName(number), signature)
	}
}

func (p inPostgres) unsign(t *testing.T) {
	t.Helper()
	p.do(t, "DELETE FROM patchbay_config_signatures")
}
