package callfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// keysOf returns the keys of a master key.
func keysOf(t testing.TB, text string) *seal.Keys {
	t.Helper()
	keys, err := seal.New(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const masterKey = "a-master-key-of-thirty-two-characters"

// kept is a file in a test with its recorder, which lists no calls itself, and the faults that it
// told.
type kept struct {
	*File
	recorder *calls.Recorder
	faults   []string
	log      strings.Builder
}

func openFile(t testing.TB, dir string, settings Settings, keys *seal.Keys) *kept {
	t.Helper()
	settings.Enabled = true
	if settings.Days == 0 {
		settings.Days = 7
	}
	if settings.MaxBytes == 0 {
		settings.MaxBytes = 64 * schema.MiB
	}
	monitoring := metrics.DefaultSettings()
	monitoring.Calls, monitoring.Capture = 0, metrics.CaptureContent
	k := &kept{recorder: calls.NewRecorder(monitoring)}
	file, err := Open(Options{
		Dir: dir, Settings: settings, Keys: keys, Recorder: k.recorder, Log: slog.New(slog.NewTextHandler(&k.log, nil)),
		Fault: func(operation, text string) { k.faults = append(k.faults, operation+": "+text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	k.File = file
	t.Cleanup(file.Close)
	return k
}

// offer records calls, which get the numbers behind the last.
func (k *kept) offer(batch ...calls.Record) {
	for _, c := range batch {
		k.recorder.Finish(&c)
		k.recorder.Flush()
	}
}

// waits returns how many calls are not written.
func (k *kept) waits() (count int) {
	for range k.waiting.Waiting() {
		count++
	}
	return count
}

// captures changes which parts of calls are kept.
func (k *kept) captures(t testing.TB, most metrics.Capture) {
	t.Helper()
	if err := k.recorder.Update(func(s *metrics.Settings) { s.Capture = most }); err != nil {
		t.Fatal(err)
	}
}

// record returns a call with a number, all of whose members can be told.
func record(number uint64) calls.Record {
	c := calls.Record{
		Sequence: number, RequestID: fmt.Sprint("req-", number), Started: time.UnixMicro(int64(1_700_000_000_000_000 + number)), Status: 503, Code: schema.CodeUpstreamError,
		Told: &calls.Told{Said: say.New("instance.no_door", "door", say.New("call.status", "status", 503)), Of: "tenant/acme", Until: time.UnixMicro(1_800_000_000_000_000)}, Unified: true, Service: schema.TTS, Door: schema.Door(3),
		Model: "m", Asked: "gpt-5o", Instance: "m@gpu-2:8000", Strategy: "random", KeyID: "k", Tenant: "acme", User: "u",
		Usage: schema.Usage{Known: true, Prompt: 1, Completion: 2, Total: 3}, Cost: 12345, Routed: true, Result: schema.ResultFailed, Ended: time.Second, Queued: time.Millisecond,
		Cache: metrics.CacheMiss, Class: schema.Interactive, Hedge: metrics.HedgeLost,
	}
	because := say.New("call.status", "status", 503)
	c.Restore(2, []calls.Try{{Instance: "a", Code: "x", Said: &because, Status: 503}, {Instance: "m@gpu-2:8000"}})
	return c
}

// numbers returns the numbers that a search finds.
func numbers(t testing.TB, f *kept, q calls.Query) (all []uint64, next uint64) {
	t.Helper()
	next, err := f.recorder.Search(context.Background(), q, func(c *calls.Record) bool {
		all = append(all, c.Sequence)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, next
}

func TestCallsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]*seal.Keys{"open": nil, "sealed": keysOf(t, masterKey)} {
		dir := t.TempDir()
		f := openFile(t, dir, Settings{}, keys)
		want := record(1)
		f.offer(want, record(2))
		f.Close()
		again := openFile(t, dir, Settings{}, keys)
		if again.last() != 2 {
			t.Errorf("%s: the last call is %d", name, again.last())
		}
		var got calls.Record
		if _, err := again.recorder.Search(t.Context(), calls.Query{Before: 2, Most: 10}, func(c *calls.Record) bool { got = *c; return true }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v\n%+v", name, got, want)
		}
		content, err := os.ReadFile(segmentFiles(t, dir, "calls-")[0])
		if err != nil {
			t.Fatal(err)
		}
		info, _ := os.Stat(segmentFiles(t, dir, "calls-")[0])
		if info.Mode().Perm() != 0o600 || keys != nil && strings.Contains(string(content), "req-") {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
	}
}

// TestACrashLosesAtMostASecond: the file asks for records that were not moved on yet, which happens
// every ten seconds without much traffic.
func TestACrashLosesAtMostASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := openFile(t, t.TempDir(), Settings{}, nil)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		running.Go(func() { f.recorder.Run(ctx) })
		c := record(1)
		f.recorder.Finish(&c)
		<-time.After(flushInterval)
		synctest.Wait()
		if f.waits() != 0 || len(f.segments(ofRecords)) != 1 {
			t.Error("the call is not on disk")
		}
		stop()
		running.Wait()
	})
}

func segmentFiles(t testing.TB, dir, prefix string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, folder, prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestACrashLosesAtMostTheEnd cuts a segment at every place: what is complete before the cut
// is read, and nothing else.
func TestACrashLosesAtMostTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFile(t, dir, Settings{}, nil)
	for n := range uint64(4) {
		f.offer(record(n + 1))
		f.flush(time.Now())
	}
	f.Close()
	path := segmentFiles(t, dir, "calls-")[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _ := journal.Calls.Head(nil, purpose, 0)
	before := 0
	for at := range len(whole) {
		read, err := parseSegment(whole[:at], nil)
		if at < len(head) {
			if !errors.Is(err, errSegment) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			continue
		}
		if len(read.blocks) < before || len(read.blocks) > before+1 || len(read.blocks) > 3 {
			t.Fatalf("cut at %d: %d blocks after %d", at, len(read.blocks), before)
		}
		before = len(read.blocks)
	}
	if err := os.Truncate(path, int64(len(whole)-1)); err != nil {
		t.Fatal(err)
	}
	again := openFile(t, dir, Settings{}, nil)
	if logged := again.log.String(); !strings.Contains(logged, filepath.Base(path)) || !strings.Contains(logged, "bytes=") {
		t.Errorf("the log says %q", logged)
	}
	again.offer(record(again.last() + 1))
	again.flush(time.Now())
	if got, _ := numbers(t, again, calls.Query{Before: math.MaxUint64, Most: 100}); fmt.Sprint(got) != "[4 3 2 1]" {
		t.Errorf("%v", got)
	}
}

// TestPagesHaveEveryCallOnce reads pages of random sizes while calls arrive, are written and
// segments end.
func TestPagesHaveEveryCallOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := openFile(t, t.TempDir(), Settings{MaxBytes: 64 * schema.MiB}, nil)
		var last uint64
		arrive := func() {
			for range random.IntN(30) {
				last++
				f.offer(record(last))
			}
			if random.IntN(2) == 0 {
				f.flush(time.Now())
			}
			if random.IntN(4) == 0 {
				f.writing.Lock()
				f.logs[ofRecords].End()
				f.writing.Unlock()
			}
		}
		for range 5 {
			arrive()
		}
		newest, next := last, uint64(math.MaxUint64)
		var seen []uint64
		for {
			size := 1 + random.IntN(7)
			page, isFull := 0, false
			after, err := f.recorder.Search(t.Context(), calls.Query{Before: next, Most: 1 + random.IntN(20)}, func(c *calls.Record) bool {
				seen = append(seen, c.Sequence)
				page++
				isFull = page == size
				return !isFull
			})
			if err != nil {
				t.Fatal(err)
			}
			if next = after; next == 0 {
				break
			}
			arrive()
		}
		var want []uint64
		for n := newest; n > 0; n-- {
			want = append(want, n)
		}
		if !slices.Equal(seen, want) {
			t.Fatalf("seed %d: of %d calls were seen %v", seed, newest, seen)
		}
	}
}

func TestOldSegmentsMakeRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFile(t, dir, Settings{MaxBytes: 1 * schema.MiB, Days: 2}, nil)
	now := time.Now()
	var last uint64
	const together = 100
	fill := func(now time.Time) {
		batch := make([]calls.Record, together)
		for i := range batch {
			last++
			batch[i] = record(last)
			for range 40 { // what cannot be compressed fills a file with few records
				batch[i].RequestID += strconv.FormatUint(rand.Uint64(), 36)
			}
		}
		f.offer(batch...)
		f.flush(now)
	}
	for range 60 {
		fill(now)
	}
	var total int64
	for _, path := range segmentFiles(t, dir, "calls-") {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	got, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: math.MaxInt})
	if total > 1<<20 || got[0] != last || len(got) < 1000 || len(got) == int(last) {
		t.Errorf("%d bytes, %d calls from %d to %d of %d", total, len(got), got[len(got)-1], got[0], last)
	}
	fill(now.Add(49 * time.Hour))
	if got, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: math.MaxInt}); len(got) != together {
		t.Errorf("after two days there are %d calls", len(got))
	}
	if len(f.faults) > 0 {
		t.Error(f.faults)
	}
}

func TestASearchLooksAtSoManyCallsAndGoesOn(t *testing.T) {
	t.Parallel()
	f := openFile(t, t.TempDir(), Settings{}, nil)
	for n := range uint64(100) {
		f.offer(record(n + 1))
	}
	f.flush(time.Now())
	got, next := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: 40})
	if len(got) != 40 || next != 61 {
		t.Errorf("%d calls, then from %d", len(got), next)
	}
	if got, next := numbers(t, f, calls.Query{Before: next, After: 50, Most: 40}); len(got) != 10 || next != 0 {
		t.Errorf("%d calls, then from %d", len(got), next)
	}
	from := record(1).Started
	if got, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, To: from, Most: 40}); len(got) != 0 {
		t.Errorf("%d calls before the first", len(got))
	}
}

// TestWhatCannotBeWrittenIsAFault: nothing waits for a disk that fails, and what could not be
// written is written later.
func TestWhatCannotBeWrittenIsAFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openFile(t, dir, Settings{}, nil)
	if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
		t.Fatal(err)
	}
	batch := make([]calls.Record, maxWaiting+10)
	for i := range batch {
		batch[i] = record(uint64(i + 1))
	}
	f.offer(batch...)
	f.flush(time.Now())
	f.flush(time.Now())
	if got := strings.Join(f.faults, "\n"); !strings.Contains(got, "10 calls were not kept") || !strings.Contains(got, "write: open: no such file") || strings.Contains(got, dir) {
		t.Error(got)
	}
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	f.flush(time.Now())
	if f.waits() > 0 || len(segmentFiles(t, dir, "calls-")) == 0 {
		t.Errorf("%d calls wait", f.waits())
	}
	if got, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: math.MaxInt}); len(got) != maxWaiting {
		t.Errorf("%d calls", len(got))
	}
}

// TestADiskThatFailsIsTriedOnceASecond: many waiting calls are written at once, but not tried again
// and again.
func TestADiskThatFailsIsTriedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := openFile(t, dir, Settings{}, nil)
		if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		f.offer(make([]calls.Record, maxWaiting/4)...)
		<-time.After(10 * flushInterval)
		stop()
		running.Wait()
		if tries := len(f.faults); tries < 10 || tries > 12 || f.waits() != maxWaiting/4 {
			t.Errorf("%d tries in ten seconds, and %d calls wait", tries, f.waits())
		}
	})
}

// TestARecordThatCannotBeEncodedIsLeftOut: those behind it are kept, and how many were left
// out is told once.
func TestARecordThatCannotBeEncodedIsLeftOut(t *testing.T) {
	t.Parallel()
	f := openFile(t, t.TempDir(), Settings{}, nil)
	unfit := func(number uint64) calls.Record {
		c := record(number)
		c.Restore(1, []calls.Try{{Instance: "a", Matched: math.NaN()}})
		return c
	}
	f.offer(unfit(1), record(2), unfit(3), record(4), unfit(5))
	f.flush(time.Now())
	f.offer(unfit(6))
	f.flush(time.Now())
	f.offer(record(7))
	f.flush(time.Now())
	if got, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: 10}); !slices.Equal(got, []uint64{7, 4, 2}) || f.waits() != 0 {
		t.Errorf("%v, and %d calls wait", got, f.waits())
	}
	if len(f.faults) != 2 || !strings.HasPrefix(f.faults[0], "encode: 3 calls were not kept") || !strings.HasPrefix(f.faults[1], "encode: 1 calls were not kept") {
		t.Errorf("%q", f.faults)
	}
}

func TestContentsAreSealedAndForgotten(t *testing.T) {
	t.Parallel()
	captured := func(what metrics.Capture) *calls.Captured {
		return &calls.Captured{
			What: what, Headers: []calls.Header{{Name: "Accept", Value: "text/x"}},
			Request: calls.Content{Type: "application/json", Bytes: 5, Text: []byte("hello")}, Answer: calls.Content{Type: "text/plain", Bytes: 9, Text: []byte("the-answer")},
		}
	}
	call := func(number uint64, what metrics.Capture) calls.Record {
		c := record(number)
		c.Captured = captured(what)
		return c
	}
	plain := openFile(t, t.TempDir(), Settings{}, nil)
	plain.offer(call(1, metrics.CaptureContent))
	plain.flush(time.Now())
	if plain.Captured(1) != nil {
		t.Error("contents are kept without a master key")
	}
	dir, keys := t.TempDir(), keysOf(t, masterKey)
	f := openFile(t, dir, Settings{}, keys)
	f.offer(call(1, metrics.CaptureContent), record(2), call(3, metrics.CaptureHeaders))
	find := func(number uint64) *calls.Captured {
		return f.recorder.FindCaptured(&calls.Record{Sequence: number})
	}
	for _, state := range []string{"waiting", "written", "on disk"} {
		if got := find(1); got == nil || got.Answer.String() != "the-answer" || got.Headers[0].Value != "text/x" {
			t.Errorf("%s: %+v", state, got)
		}
		if find(2) != nil || find(3) == nil {
			t.Errorf("%s: other calls", state)
		}
		if f.flush(time.Now()); state == "written" {
			find = f.Captured
		}
	}
	if content, err := os.ReadFile(segmentFiles(t, dir, "contents-")[0]); err != nil || strings.Contains(string(content), "the-answer") {
		t.Errorf("%v", err)
	}
	f.Close()
	again := openFile(t, dir, Settings{}, keys)
	if again.Captured(1) == nil {
		t.Error("the contents are lost with a restart")
	}
	again.offer(call(4, metrics.CaptureContent)) // which waits
	again.captures(t, metrics.CaptureHeaders)
	again.flush(time.Now())
	if again.Captured(1) != nil || len(segmentFiles(t, dir, "contents-")) > 0 {
		t.Error("the contents are kept although less is to be kept")
	}
	if got, _ := numbers(t, again, calls.Query{Before: math.MaxUint64, Most: 10}); len(got) != 4 {
		t.Errorf("%v", got)
	}
	other := openFile(t, dir, Settings{}, keysOf(t, "another-master-key-of-many-characters"))
	if got, _ := numbers(t, other, calls.Query{Before: math.MaxUint64, Most: 10}); len(got) != 0 || other.last() <= 4 || len(other.faults) == 0 {
		t.Errorf("%v %d %v", got, other.last(), other.faults)
	}
}

// FuzzSegments gives the reader any bytes: it neither fails nor takes much memory, and finds
// nothing but records.
func FuzzSegments(f *testing.F) {
	head, _ := journal.Calls.Head(nil, purpose, 0)
	one := record(7)
	form := newForm()
	line, err := form.appendRecord(nil, &one)
	if err != nil {
		f.Fatal(err)
	}
	block, err := encodeBlock(nil, 0, span{7, 7, 1, 1}, line)
	if err != nil {
		f.Fatal(err)
	}
	good := append(slices.Clone(head), block...)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(slices.Clone(good), good[len(head):]...))
	f.Add(append([]byte("PBCALLS2"), 1, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := parseSegment(data, nil)
		if err != nil {
			return
		}
		for n := range read.blocks {
			lines, err := read.lines(n)
			if err != nil {
				continue
			}
			for _, line := range lines {
				if c, err := form.readRecord(line); err == nil {
					c.Described()
					_ = c.Cause()
					if _, err := form.appendRecord(nil, c); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

// Calls wait while the disk has no space but what is reserved, and are written when it has some.
func TestCallsLeaveTheReserveOfTheDiskAlone(t *testing.T) {
	t.Parallel()
	f := openFile(t, t.TempDir(), Settings{}, nil)
	isFull := true
	f.options.IsFull = func() bool { return isFull }
	f.offer(record(1))
	f.flush(time.Now())
	if len(f.logs[ofRecords].Files) > 0 || len(f.faults) != 1 || !strings.Contains(f.faults[0], "reserved") {
		t.Errorf("calls were written to %v, with the faults %v", f.logs[ofRecords].Files, f.faults)
	}
	isFull = false
	f.flush(time.Now())
	if len(f.logs[ofRecords].Files) != 1 {
		t.Error("the call was not written")
	}
}

// The file is turned on and off while calls are recorded: it has those that ended while it was on,
// and their numbers go on behind the last one.
func TestTheFileIsTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	f := openFile(t, t.TempDir(), Settings{}, nil)
	turn := func(on bool) {
		t.Helper()
		if err := f.Set(Settings{Enabled: on, Days: 7, MaxBytes: schema.MiB}); err != nil {
			t.Fatal(err)
		}
	}
	f.offer(record(1))
	f.flush(time.Now())
	turn(false)
	f.offer(record(2))
	f.flush(time.Now())
	if found, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: 100}); len(found) != 0 || f.recorder.ArchivedDays() != 0 {
		t.Errorf("while it is off, %v are found", found)
	}
	turn(true)
	turn(true)
	f.offer(record(3))
	f.flush(time.Now())
	if found, _ := numbers(t, f, calls.Query{Before: math.MaxUint64, Most: 100}); !slices.Equal(found, []uint64{3, 1}) {
		t.Errorf("found %v", found)
	}
}
