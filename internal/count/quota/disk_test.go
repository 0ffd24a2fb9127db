package quota

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// What was appended to a segment is in the file, as any process sees it, before the
// append returns.
func TestAppendedRecordsAreInTheFileAtOnce(t *testing.T) {
	dir := durable.At(t.TempDir())
	file, err := dir.Append("segment")
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for n := range 40 {
		part := bytes.Repeat([]byte{byte('a' + n%26)}, 10_007)
		if written, err := file.Write(part); err != nil || written != len(part) {
			t.Fatalf("%d bytes written, %v", written, err)
		}
		want = append(want, part...)
		got, err := os.ReadFile(dir.Path("segment"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d appends the file has %d bytes, and not those", n+1, len(got))
		}
	}
	if err := file.Sync(); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.Read("segment"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after the end the file has %d bytes (%v), want %d", len(got), err, len(want))
	}
}

// TestSegmentsThatSomethingElseChangedAreMadeUpFor: whatever happens to the files of a
// running ledger, requests go on as fail-open says, and within a second a new segment
// has everything that the database does not.
func TestSegmentsThatSomethingElseChangedAreMadeUpFor(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T, dir, segment string){
		"truncated":         func(t *testing.T, _, segment string) { must(t, os.Truncate(segment, 0)) },
		"cut in the middle": func(t *testing.T, _, segment string) { must(t, os.Truncate(segment, 100)) },
		"removed":           func(t *testing.T, _, segment string) { must(t, os.Remove(segment)) },
		"moved":             func(t *testing.T, dir, segment string) { must(t, os.Rename(segment, filepath.Join(dir, "other"))) },
		"with the directory": func(t *testing.T, dir, _ string) {
			must(t, os.RemoveAll(dir))
		},
		"replaced": func(t *testing.T, _, segment string) {
			must(t, os.Remove(segment))
			must(t, os.WriteFile(segment, []byte("something"), 0o600))
		},
	} {
		for _, which := range []string{"the current segment", "an old segment"} {
			t.Run(name+"/"+which, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "quota")
				var log bytes.Buffer
				start := func(sql *MemorySnapshots) *bench {
					b := &bench{t: t, sql: sql, now: time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)}
					settings := DefaultSettings()
					settings.Enabled, settings.FailOpen = true, false
					b.Ledger = New(settings, Options{
						Dir: dir, OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil },
						Now: func() time.Time { return b.now }, manual: true, Log: slog.New(slog.NewTextHandler(&log, nil)),
					})
					return b
				}
				b := start(&MemorySnapshots{Down: true})
				b.count("before", b.now, 7)
				if which == "an old segment" {
					_ = b.session.flush(t.Context())
					b.count("between", b.now, 3)
				}
				change(t, dir, filepath.Join(dir, segmentName(1)))
				b.count("after", b.now, 5)
				b.session.maintainJournal()
				if logged := log.String(); !strings.Contains(logged, "the journal failed") || !strings.Contains(logged, segmentName(1)) || !strings.Contains(logged, "the journal is back") {
					t.Errorf("the log says %s", logged)
				}
				failures := b.Stats().JournalFailures
				if failures == 0 {
					t.Error("no failure is counted")
				}
				b.count("last", b.now, 1)
				b.session.maintainJournal()
				if b.Stats().JournalFailures != failures || b.session.journal.err() != nil {
					t.Errorf("it is found again: %s", log.String())
				}
				after := start(new(MemorySnapshots)) // the first one is as good as killed
				want := map[string]string{"before": "1/7", "after": "1/5", "last": "1/1"}
				if which == "an old segment" {
					want["between"] = "1/3"
				}
				for user, counts := range want {
					after.has(user, Day, map[string]string{day: counts})
				}
				after.flush()
				if left, _, err := segments(durable.At(dir)); err != nil || len(left) != 1 {
					t.Errorf("segments %v, %v", left, err)
				}
				if err := after.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestFullDiskIsNotFilledFurther: the segments that a full disk cuts short do not stay.
func TestFullDiskIsNotFilledFurther(t *testing.T) {
	b := newBench(t, nil)
	b.sql.Down = true
	for n := range 100 {
		b.count(fmt.Sprint("user-", n), b.now, 1)
	}
	b.disk.room = b.disk.held() + 500 // for a segment's beginning
	for n := range 100 {
		b.count(fmt.Sprint("later-", n), b.now, 1)
	}
	for range 10 {
		b.session.maintainJournal()
	}
	if names, _ := b.disk.Names(); len(names) > 1 {
		t.Errorf("segments %v", names)
	}
	if s := b.Status(t.Context()); !strings.HasPrefix(s.Reason, "quota-journal-unavailable") {
		t.Errorf("full: %q", s.Reason)
	}
	b.disk.room = 0
	b.session.maintainJournal()
	b.count("last", b.now, 1)
	after := newBenchOn(t, b.disk.afterKill(), new(MemorySnapshots), nil)
	for _, user := range []string{"user-0", "user-99", "later-0", "later-99", "last"} {
		after.has(user, Day, map[string]string{day: "1/1"})
	}
	if s := b.Status(t.Context()); strings.Contains(s.Reason, "journal") {
		t.Errorf("with room again: %q", s.Reason)
	}
}

// TestSyncThatFailsIsTold: also where a request asked for it, and where a segment ends.
func TestSyncThatFailsIsTold(t *testing.T) {
	for name, provoke := range map[string]func(*bench){
		"with every request": func(b *bench) { b.count("u", b.now, 1) },
		"where a segment ends": func(b *bench) {
			b.sql.Down = true
			_ = b.session.flush(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(s *Settings) { s.JournalSync = SyncAlways })
			b.count("u", b.now, 1)
			b.disk.failSync = true
			provoke(b)
			b.disk.failSync = false
			if b.session.journal.err() == nil {
				t.Error("the journal goes on")
			}
			b.session.maintainJournal()
			if b.Stats().JournalFailures == 0 || b.session.journal.err() != nil {
				t.Errorf("%d failures, %v", b.Stats().JournalFailures, b.session.journal.err())
			}
			b.sql.Down = false
			// What the old segment holds is not known, and need not be.
			disk := b.disk.afterPowerLoss()
			delete(disk.files, segmentName(1))
			after := newBenchOn(t, disk, new(MemorySnapshots), nil)
			if got := after.counts("u", Day)[day]; got != b.counts("u", Day)[day] {
				t.Errorf("%s after a loss of power, %s before", got, b.counts("u", Day)[day])
			}
		})
	}
}
