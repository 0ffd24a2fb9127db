package calls

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// TestTheTailLosesNothing adds records from several goroutines while they are moved on and read.
func TestTheTailLosesNothing(t *testing.T) {
	t.Parallel()
	tail := newTail(0)
	cursor, err := tail.open(&Cursor{room: bufferSize, wakeAt: 1})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 2000
	var wrote sync.WaitGroup
	for w := range writers {
		wrote.Go(func() {
			for n := range each {
				c := Record{RequestID: "x", Status: w, Attempts: n}
				for tail.push(&c) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	var next [writers]int
	for taken := 0; taken < writers*each; {
		waiting := tail.waiting()
		if waiting > bufferSize {
			t.Fatalf("%d records wait where there is room for %d", waiting, bufferSize)
		}
		if waiting > 0 {
			tail.move(len(tail.run(waiting)))
			tail.release()
		}
		for c := range cursor.Waiting() {
			cursor.Done(c.Sequence)
			if taken++; c.Sequence != uint64(taken) {
				t.Fatalf("the record %d has the number %d", taken, c.Sequence)
			}
			if c.Attempts != next[c.Status] {
				t.Fatalf("writer %d: %d came where %d should", c.Status, c.Attempts, next[c.Status])
			}
			next[c.Status]++
		}
	}
	wrote.Wait()
	if tail.waiting() != 0 || cursor.Missed() != 0 {
		t.Errorf("%d wait, %d were missed", tail.waiting(), cursor.Missed())
	}
}

// TestCursorsReadEveryRecordOrTellHowManyTheyMissed lets records come and be read at random, with
// loops that end early and loops that are not done with their records.
func TestCursorsReadEveryRecordOrTellHowManyTheyMissed(t *testing.T) {
	t.Parallel()
	const room, shown, before = 150, 70, 999
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		tail := newTail(shown)
		tail.begin(before + 1)
		cursor, err := tail.open(&Cursor{room: room, wakeAt: 1})
		if err != nil {
			t.Fatal(err)
		}
		arrive := func(most int) {
			for range random.IntN(most) {
				tail.push(&Record{})
			}
			for waiting := tail.waiting(); waiting > 0; waiting = tail.waiting() {
				tail.move(len(tail.run(1 + random.IntN(waiting))))
			}
			tail.release()
			if kept := tail.moved - tail.first; kept > room || tail.moved-before > shown && kept < shown {
				t.Fatalf("seed %d: %d records are kept", seed, kept)
			}
			if most := (room+2*chunkSize+spareRoom)/chunkSize + 1; len(tail.chunks) > most {
				t.Fatalf("seed %d: %d chunks", seed, len(tail.chunks))
			}
		}
		done, missed, total := uint64(before), uint64(0), uint64(0)
		for range 300 {
			arrive(90)
			isDoneEach, isDoneAtEnd := random.IntN(2) == 0, random.IntN(2) == 0
			read, stop := done, random.IntN(200)
			for c := range cursor.Waiting() {
				if c.Sequence <= read {
					t.Fatalf("seed %d: %d comes behind %d", seed, c.Sequence, read)
				}
				missed += c.Sequence - read - 1
				if read = c.Sequence; isDoneEach {
					cursor.Done(read)
				}
				if stop--; stop < 0 {
					break
				}
				if random.IntN(20) == 0 {
					arrive(60)
				}
			}
			if told := uint64(cursor.Missed()); told != missed {
				t.Fatalf("seed %d: missed %d records, told %d", seed, missed, told)
			}
			total, done, missed = total+missed, cursor.next-1, 0
			if isDoneAtEnd {
				done = max(done, read)
				cursor.Done(done)
			}
		}
		if total == 0 || total == tail.moved-before-1 {
			t.Errorf("seed %d: %d of %d records were missed", seed, total, tail.moved-before-1)
		}
	}
}

// TestFeedsWorkWithoutAList: monitoring.calls 0 keeps no list, and feeds get every call.
func TestFeedsWorkWithoutAList(t *testing.T) {
	t.Parallel()
	settings := metrics.DefaultSettings()
	settings.Calls = 0
	r := NewRecorder(settings)
	feed, err := r.Follow()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for n := range 3 * chunkSize {
		want = append(want, fmt.Sprint(n))
		finish(r, want[n])
		if r.Flush(); n%2 == 0 {
			continue
		}
		for c := range feed.Waiting() {
			got = append(got, c.RequestID)
			feed.Done(c.Sequence)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the feed got %v", got)
	}
	feed.Close()
	finish(r, "last")
	if r.Flush(); len(ids(r)) != 0 || r.tail.first != r.tail.next {
		t.Errorf("%v are listed, %d are kept", ids(r), r.tail.next-r.tail.first)
	}
}

// TestASlowFollowerStaysAndIsToldHowManyItMissed: it gets the latest calls that are left.
func TestASlowFollowerStaysAndIsToldHowManyItMissed(t *testing.T) {
	t.Parallel()
	settings := metrics.DefaultSettings()
	settings.Calls = 10
	r := NewRecorder(settings)
	feed, err := r.Follow()
	if err != nil {
		t.Fatal(err)
	}
	for n := range feedRoom + 30 {
		finish(r, fmt.Sprint(n))
		r.Flush()
	}
	if n := readAll(feed); n != feedRoom || feed.Missed() != 30 || feed.HasEnded() || r.Faults().Active != 0 {
		t.Errorf("read %d", n)
	}
}
