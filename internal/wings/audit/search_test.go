package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
)

// fill writes files of 4 MiB with records, of which one in each file is of a tenant.
func fill(tb testing.TB, dir string, files int) {
	tb.Helper()
	line := func(i int, tenant string) []byte {
		r := audit.Record{Seq: int64(i), Time: fmt.Sprintf("2026-01-01T%02d:%02d:%02d.000000Z", i/3600%24, i/60%60, i%60), Gateway: "g1", Who: "ann", Role: "ADMIN", Address: "10.0.0.1",
			Action: "PUT /api/config/instance/update/{serviceType}", Object: "/api/config/instance/update/chat: changed", Result: "200 done", Tenant: tenant, Previous: audit.Digest(nil), Hash: audit.Digest(nil)}
		return r.Line()
	}
	other := bytes.Repeat(line(2, ""), 4<<20/len(line(2, "")))
	for i := range files {
		content := append(line(i*1_000_000+1, "acme"), other...)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("0001-%012d.jsonl", i*1_000_000+1)), content, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// A search ends with the last record that it needs, and finds what a tenant has among many others.
func TestASearchReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, dir, 3)
	oldest := filepath.Join(dir, "0001-000000000001.jsonl")
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(oldest, before, before); err != nil { // it was last written then
		t.Fatal(err)
	}
	store := audit.NewFiles(durable.At(dir))
	for _, test := range []struct {
		q           audit.Query
		found, most int
	}{
		{audit.Query{Limit: 1000}, 1000, 1000}, {audit.Query{Limit: 2, Tenants: []string{"acme"}}, 2, 2},
		{audit.Query{Limit: 9, Counts: true, Tenants: []string{"acme"}}, 3, 3}, {audit.Query{Limit: 9, Counts: true, Who: "ANN", Tenants: []string{"acme"}}, 3, 3},
		{audit.Query{Limit: 9, Counts: true, Who: "eve"}, 0, 0}, {audit.Query{Limit: 1, Skip: 1, Counts: true, Tenants: []string{"acme"}}, 1, 3},
		// No record of a file is from after it was last written.
		{audit.Query{From: "2026-01-01T00:00:00.000000Z", Limit: 9, Counts: true, Tenants: []string{"acme"}}, 3, 3},
		{audit.Query{From: "2026-01-01T00:01:01.000000Z", Limit: 9, Counts: true, Tenants: []string{"acme"}}, 2, 2},
	} {
		found, total, err := store.Search(t.Context(), test.q)
		if err != nil || len(found) != test.found || total != test.most {
			t.Errorf("%+v: got %d of %d records, want %d of %d; %v", test.q, len(found), total, test.found, test.most, err)
		}
	}
}

func BenchmarkSearchOfATenant(b *testing.B) {
	dir := b.TempDir()
	const files = 16
	fill(b, dir, files)
	b.SetBytes(files * 4 << 20)
	store := audit.NewFiles(durable.At(dir))
	for b.Loop() {
		if _, total, err := store.Search(b.Context(), audit.Query{Limit: 100, Counts: true, Tenants: []string{"acme"}}); err != nil || total != files {
			b.Fatal(total, err)
		}
	}
}
