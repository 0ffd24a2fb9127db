package quota

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

func TestRestartReadsTheJournal(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 3)
	var open Ticket
	if err := b.Admit(&open, Subject{User: []byte("u"), Service: schema.Chat, Model: "m"}, b.now); err != nil {
		t.Fatal(err)
	}
	// Killed with a request in flight: it is counted, and costs nothing.
	after := newBenchOn(t, b.disk.afterKill(), b.sql, nil)
	after.has("u", Day, map[string]string{day: "2/3"})
	after.count("u", after.now, 5)
	// Killed during a flush that reached the database, before the journal knew.
	after.sql.Mute = true
	_ = after.session.flush(context.Background())
	after.sql.Mute = false
	third := newBenchOn(t, after.disk.afterKill(), after.sql, nil)
	third.has("u", Day, map[string]string{day: "3/8"})
	third.flush()
	third.has("u", Day, map[string]string{day: "3/8"})
	if names, _ := third.disk.Names(); len(names) != 1 {
		t.Errorf("segments left: %v", names)
	}
}

func TestPowerLossCostsNoMoreThanASecond(t *testing.T) {
	for choice, want := range map[Sync]string{SyncEverySecond: "1/1", SyncAlways: "2/2"} {
		b := newBench(t, func(s *Settings) { s.JournalSync = choice })
		b.count("u", b.now, 1)
		if err := b.session.journal.syncAll(); err != nil { // the ticker's
			t.Fatal(err)
		}
		b.count("u", b.now, 1)
		after := newBenchOn(t, b.disk.afterPowerLoss(), b.sql, nil)
		after.has("u", Day, map[string]string{day: want})
	}
	b := newBench(t, func(s *Settings) { s.JournalSync = SyncOff })
	b.count("u", b.now, 1)
	b.flush()
	if b.disk.syncs != 0 {
		t.Errorf("%d syncs", b.disk.syncs)
	}
}

func TestFailedSyncClosesTheSegment(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	b.disk.failSync = true
	if err := b.session.journal.syncAll(); err == nil {
		t.Fatal("the sync did not fail")
	}
	b.disk.failSync = false
	if err := b.session.journal.syncAll(); err == nil {
		t.Error("a second sync is believed")
	}
	b.session.repair()
	if err := b.session.journal.syncAll(); err != nil {
		t.Error(err)
	}
	// The new segment has it all: what the old one holds is not known.
	disk := b.disk.afterPowerLoss()
	delete(disk.files, segmentName(1))
	after := newBenchOn(t, disk, b.sql, nil)
	after.has("u", Day, map[string]string{day: "1/1"})
}

func TestTornSegmentIsUsedUpToTheTear(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	whole := len(b.disk.last().data)
	b.count("u", b.now, 10)
	for cut := whole; cut < len(b.disk.last().data); cut++ {
		disk := b.disk.afterKill()
		disk.last().data = disk.last().data[:cut]
		after := newBenchOn(t, disk, new(MemorySnapshots), nil)
		got := after.counts("u", Day)[day]
		if got != "1/1" && got != "2/1" { // the second request, without its tokens
			t.Fatalf("cut at %d: %s", cut, got)
		}
		if s := after.Status(t.Context()); s.Reason != "" {
			t.Errorf("cut at %d: %s", cut, s.Reason)
		}
	}
	disk := b.disk.afterKill()
	disk.last().data = append(disk.last().data, make([]byte, 4096)...) // a file system that grew the file first
	after := newBenchOn(t, disk, new(MemorySnapshots), nil)
	after.has("u", Day, map[string]string{day: "2/11"})
	if s := after.Stats(); s.TornSegments != 1 || s.CorruptSegments != 0 {
		t.Errorf("%+v", s)
	}
}

func TestCorruptSegmentIsKeptAndReported(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	middle := len(b.disk.last().data) - 3
	b.count("u", b.now, 10)
	disk := b.disk.afterKill()
	disk.last().data[middle] ^= 0x10
	after := newBenchOn(t, disk, b.sql, nil)
	// Totals follow each other: what comes after the damage makes up for it.
	after.has("u", Day, map[string]string{day: "2/11"})
	if s := after.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-journal-corrupt: journal-") {
		t.Errorf("reason %q", s.Reason)
	}
	after.flush()
	names, _ := after.disk.Names()
	if len(names) != 2 || !strings.HasSuffix(names[0], corruptSuffix) {
		t.Errorf("files %v", names)
	}
	if s := after.Stats(); s.CorruptSegments != 1 {
		t.Errorf("%+v", s)
	}
}

func TestEverySegmentCanBeReadAlone(t *testing.T) {
	b := newBench(t, nil)
	b.sql.Down = true
	b.count("u", b.now, 1)
	_ = b.session.flush(context.Background())
	b.count("u", b.now, 1)
	disk := b.disk.afterKill()
	delete(disk.files, segmentName(1))
	after := newBenchOn(t, disk, new(MemorySnapshots), nil)
	after.has("u", Day, map[string]string{day: "2/2"})
}

// TestFullDiskIsUsedAgain: a segment that could not be begun is not in the way
// when there is room again.
func TestFullDiskIsUsedAgain(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	b.disk.failWrite, b.disk.failAfter = true, 5
	b.count("u", b.now, 1)
	for range 3 {
		b.session.repair()
	}
	if s := b.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-journal-unavailable") {
		t.Errorf("full: %q", s.Reason)
	}
	b.disk.failWrite = false
	b.session.repair()
	if s := b.Status(t.Context()); s.Reason != "" {
		t.Errorf("with room again: %q", s.Reason)
	}
	b.count("u", b.now, 1)
	after := newBenchOn(t, b.disk.afterKill(), new(MemorySnapshots), nil)
	after.has("u", Day, map[string]string{day: "3/3"})
}

// TestFlushDoesNotReopenAFailedJournal: only who also writes what the journal missed
// may make it look well.
func TestFlushDoesNotReopenAFailedJournal(t *testing.T) {
	b := newBench(t, nil)
	b.disk.failWrite = true
	b.count("u", b.now, 1)
	b.disk.failWrite = false
	b.sql.Down = true
	if b.session.flush(t.Context()) == nil || b.session.journal.err() == nil {
		t.Fatal("the journal is well, and the count is nowhere")
	}
	b.session.repair()
	after := newBenchOn(t, b.disk.afterKill(), new(MemorySnapshots), nil)
	after.has("u", Day, map[string]string{day: "1/1"})
	if s := b.Status(t.Context()); strings.Contains(s.Reason, "journal") {
		t.Errorf("%q", s.Reason)
	}
}

// TestJournalIsRepairedWhileTheDatabaseHangs: a flush that waits does not keep the
// journal from being written again.
func TestJournalIsRepairedWhileTheDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newMemoryDisk()
		settings := DefaultSettings()
		settings.Enabled, settings.FlushIntervalSeconds = true, 1
		l := New(settings, Options{
			OpenSnapshots: func(ctx context.Context) (Snapshots, error) { <-ctx.Done(); return nil, ctx.Err() },
			disk:          disk,
		})
		count := func() {
			var ticket Ticket
			if err := l.Admit(&ticket, Subject{User: []byte("u"), Service: schema.Chat, Model: "m"}, time.Now()); err != nil {
				t.Fatal(err)
			}
			ticket.Settle(schema.Usage{Known: true, Total: 1})
		}
		<-time.After(5 * time.Second) // a flush hangs
		disk.mu.Lock()
		disk.failWrite = true
		disk.mu.Unlock()
		count()
		disk.mu.Lock()
		disk.failWrite = false
		disk.mu.Unlock()
		<-time.After(1100 * time.Millisecond)
		count()
		after := newBenchOn(t, disk.afterKill(), new(MemorySnapshots), nil)
		after.now = time.Now()
		after.has("u", Month, map[string]string{Month.Start(after.now).Format(time.RFC3339): "2/2"})
		if s := l.Status(t.Context()); strings.Contains(s.Reason, "journal") {
			t.Errorf("%q", s.Reason)
		}
		_ = l.Close(t.Context())
	})
}

// TestJournalRecoversAfterAFailedCut: the old segment goes on meanwhile.
func TestJournalRecoversAfterAFailedCut(t *testing.T) {
	b := newBench(t, nil)
	b.count("u", b.now, 1)
	b.disk.failCreate = true
	b.flush()
	if s := b.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-journal-unavailable") {
		t.Errorf("%q", s.Reason)
	}
	b.count("u", b.now, 1)
	b.disk.failCreate = false
	b.flush()
	if s := b.Status(t.Context()); s.Reason != "" {
		t.Errorf("%q", s.Reason)
	}
	after := newBenchOn(t, b.disk.afterKill(), b.sql, nil)
	after.has("u", Day, map[string]string{day: "2/2"})
}

// TestDamageLosesWhatIsDamaged flips every bit of a journal, one at a time.
func TestDamageLosesWhatIsDamaged(t *testing.T) {
	b := newBench(t, nil)
	users := []string{"a", "b", "c", "d"}
	for _, user := range users {
		b.count(user, b.now, 1)
	}
	whole := b.disk.last().data
	for at := range whole {
		for bit := range 8 {
			disk := b.disk.afterKill()
			disk.last().data[at] ^= 1 << bit
			found, err := recoverSegments(disk)
			if err != nil {
				t.Fatal(err)
			}
			kept := map[string]bool{}
			for _, row := range found.rows {
				if row.Window == Month && row.Requests == 1 && row.Tokens == 1 {
					kept[row.Key.User] = true
				}
			}
			// The last record cannot be told from one that was cut off.
			reported := found.segments[0].damage.IsCorrupt || at >= len(whole)-60
			if len(kept) < len(users)-1 || !reported {
				t.Fatalf("byte %d, bit %d: the counts of %v are left, reported: %t", at, bit, kept, reported)
			}
		}
	}
}

func TestEveryCorruptSegmentIsKept(t *testing.T) {
	disk := newMemoryDisk()
	for n := range 3 {
		b := newBenchOn(t, disk, new(MemorySnapshots), nil)
		b.count("u", b.now, 1)
		b.count("u", b.now, 1)
		disk = b.disk.afterKill()
		disk.last().data[len(segmentMagic)+20] ^= 1
		b = newBenchOn(t, disk, new(MemorySnapshots), nil)
		b.flush()
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		names, _ := disk.Names()
		if len(names) != n+1 {
			t.Errorf("after %d: %v", n+1, names)
		}
	}
}

// FuzzRecovery reads any bytes as a segment: it never panics, and what stands
// before the first damage is kept.
func FuzzRecovery(f *testing.F) {
	good := []byte(segmentMagic)
	c := &cell{owner: &keyCells{key: Key{Tenant: "t", User: "u", Model: "m"}}, writer: "w", window: Day, start: 1_700_006_400, id: 1}
	good = appendDefinition(good, c)
	at := len(good)
	good = appendTotals(append(records.Ledger.Begin(good), isUpdate), 1, Totals{3, 40, 30, 10, 5e12})
	good = records.Ledger.End(good, at, nil, 0)
	f.Add([]byte(nil))
	f.Add(good)
	f.Add(good[len(segmentMagic):])
	f.Add(append(bytes.Clone(good), 7, 0, 1, 2, 3, 4, isUpdate, 1, 2))
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		readSegment(data, func(row Row) {
			if row.Writer == "" || row.Requests < 0 || row.Tokens < 0 {
				t.Errorf("%+v", row)
			}
		})
		found := map[cellID]Row{}
		readSegment(append(bytes.Clone(good), data...), func(row Row) { merge(found, &row) })
		kept := false
		for _, row := range found {
			kept = kept || row.Writer == "w" && row.Requests >= 3 && row.Tokens >= 40 && row.Start.Equal(time.Unix(1_700_006_400, 0))
		}
		if !kept {
			t.Error("what was written before is lost")
		}
	})
}
