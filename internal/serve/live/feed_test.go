package live

import (
	"errors"
	"strconv"
	"testing"
	"time"
)

func newTestFeed(t *testing.T) *Feed {
	return NewFeed(newRig(t).Sampler, func(now time.Time, _ bool) []byte { return []byte(strconv.FormatInt(now.Unix(), 10)) })
}

func TestSlowReadersMissOldChangesAndAreToldHowMany(t *testing.T) {
	t.Parallel()
	f := newTestFeed(t)
	r, err := f.Read(ReaderOptions{Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range maxChanges + 10 {
		f.note(Change{Kind: VersionChanged, To: strconv.Itoa(i)})
	}
	news := r.News()
	if news.Missed != 10 || len(news.Changes) != maxChanges || news.Changes[0].To != "10" || news.Changes[0].Sequence != 11 {
		t.Errorf("missed %d, has %d, first %+v", news.Missed, len(news.Changes), news.Changes[0])
	}
	if again := r.News(); again.Missed != 0 || len(again.Changes) != 0 {
		t.Errorf("told twice: %+v", again)
	}
}

func TestReadersResumeWhereTheyWere(t *testing.T) {
	t.Parallel()
	f := newTestFeed(t)
	f.note(Change{To: "1"})
	f.note(Change{To: "2"})
	for after, want := range map[uint64]int{0: 2, 1: 1, 2: 0, 99: 0} {
		r, err := f.Read(ReaderOptions{Changes: true, After: &after})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.News().Changes); got != want {
			t.Errorf("after %d: %d changes", after, got)
		}
		r.Close()
	}
	fresh, _ := f.Read(ReaderOptions{Changes: true})
	if got := len(fresh.News().Changes); got != 0 {
		t.Errorf("a new reader was told %d changes", got)
	}
}

func TestSnapshotsAreMadeOnceForAllAndOnlyForReaders(t *testing.T) {
	t.Parallel()
	made := 0
	f := NewFeed(newRig(t).Sampler, func(time.Time, bool) []byte { made++; return []byte{byte(made)} })
	f.publish(time.Now())
	onlyChanges, _ := f.Read(ReaderOptions{Changes: true})
	f.publish(time.Now())
	if made != 0 {
		t.Fatalf("%d snapshots for nobody", made)
	}
	one, _ := f.Read(ReaderOptions{Snapshots: true})
	two, _ := f.Read(ReaderOptions{Snapshots: true})
	f.publish(time.Now())
	f.publish(time.Now())
	if a, b := one.News().Snapshot, two.News().Snapshot; made != 2 || string(a) != "\x02" || string(b) != "\x02" {
		t.Errorf("%d made, %q, %q", made, a, b)
	}
	if one.News().Snapshot != nil || onlyChanges.News().Snapshot != nil {
		t.Error("a snapshot that nobody waits for")
	}
}

// Readers who see words get them, and the others do not.
func TestSnapshotsAreMadeWithWordsAndWithout(t *testing.T) {
	t.Parallel()
	f := NewFeed(newRig(t).Sampler, func(_ time.Time, words bool) []byte { return strconv.AppendBool(nil, words) })
	with, _ := f.Read(ReaderOptions{Snapshots: true, Words: true})
	without, _ := f.Read(ReaderOptions{Snapshots: true})
	f.publish(time.Now())
	if a, b := with.News().Snapshot, without.News().Snapshot; string(a) != "true" || string(b) != "false" {
		t.Errorf("%s and %s", a, b)
	}
}

func TestReadersAreBoundedAndEndWithTheFeed(t *testing.T) {
	t.Parallel()
	f := newTestFeed(t)
	var all []*Reader
	for range maxReaders {
		r, err := f.Read(ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if _, err := f.Read(ReaderOptions{}); !errors.Is(err, ErrReaders) {
		t.Errorf("one too many: %v", err)
	}
	all[0].Close()
	all[0].Close()
	if _, err := f.Read(ReaderOptions{}); err != nil {
		t.Errorf("the place that was left: %v", err)
	}
	f.Close()
	for _, r := range all {
		<-r.Ended()
	}
	if _, err := f.Read(ReaderOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
