package quota

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// local returns a ledger on a real disk, without goroutines.
func local(t testing.TB, sql Snapshots) *Ledger {
	t.Helper()
	settings := DefaultSettings()
	settings.Enabled = true
	l := New(settings, Options{
		Dir: t.TempDir(), OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil }, manual: true,
	})
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

var benchSubject = Subject{Tenant: "acme", APIKey: "team-a", User: []byte("ann"), Service: schema.Chat, Model: "qwen2:7b"}

func BenchmarkRequest(b *testing.B) {
	l := local(b, new(MemorySnapshots))
	var ticket Ticket
	usage := schema.Usage{Known: true, Total: 42}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := l.Admit(&ticket, benchSubject, time.Now()); err != nil {
			b.Fatal(err)
		}
		ticket.Settle(usage)
		if i%200_000 == 199_999 {
			b.StopTimer()
			if err := l.session.flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

func BenchmarkRequestWhileOff(b *testing.B) {
	l := New(DefaultSettings(), Options{Dir: b.TempDir()})
	var ticket Ticket
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Admit(&ticket, benchSubject, now)
		ticket.Settle(schema.Usage{})
	}
}

func TestRequestAllocatesNothing(t *testing.T) {
	l := local(t, new(MemorySnapshots))
	var ticket Ticket
	now := time.Now()
	cost := testing.AllocsPerRun(1000, func() {
		_ = l.Admit(&ticket, benchSubject, now)
		ticket.Settle(schema.Usage{Known: true, Total: 42})
	})
	if cost != 0 {
		t.Errorf("%v allocations a request", cost)
	}
}

// manyCells fills a ledger with this many cells.
func manyCells(t testing.TB, l *Ledger, cells int) {
	t.Helper()
	var ticket Ticket
	now := time.Now()
	for i := range cells / countedWindows {
		who := benchSubject
		who.User = fmt.Appendf(nil, "user-%06d", i)
		if err := l.Admit(&ticket, who, now); err != nil {
			t.Fatal(err)
		}
		ticket.Settle(schema.Usage{Known: true, Total: 1})
	}
}

func TestManyCellsFitInMemory(t *testing.T) {
	var before, after runtime.MemStats
	l := local(t, new(MemorySnapshots))
	runtime.GC()
	runtime.ReadMemStats(&before)
	const cells, most = 20_000, 13 << 20 // 64 MiB for 100,000
	manyCells(t, l, cells)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := l.Stats().Cells; got != cells {
		t.Errorf("%d cells", got)
	}
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > most {
		t.Errorf("%d bytes", used)
	} else {
		t.Logf("%d KiB", used>>10)
	}
	runtime.KeepAlive(l)
}
