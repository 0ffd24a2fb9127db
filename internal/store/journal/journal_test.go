package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const purpose = "a test"

func keys(t testing.TB) *seal.Keys {
	t.Helper()
	k, err := seal.New("a-master-key-of-thirty-two-characters", "")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// kinds are all formats, sealed and not.
func kinds(t testing.TB) map[string]kind {
	return map[string]kind{
		"ledger": {Ledger, nil}, "answers": {Answers, nil}, "sealed answers": {Answers, keys(t)},
		"calls": {Calls, nil}, "sealed calls": {Calls, keys(t)},
	}
}

type kind struct {
	Format
	keys *seal.Keys
}

// bodies returns texts that the records of a file have.
func bodies(count int) []string {
	all := make([]string, count)
	for n := range all {
		all[n] = "D" + strings.Repeat(strconv.Itoa(n), n+1)
	}
	return all
}

// write returns a file with records, and where each of them ends.
func (k kind) write(bodies []string) (file []byte, ends []int) {
	l := &layouts[k.Format]
	file, box := k.Head(k.keys, purpose, make([]byte, l.extra)...)
	ends = append(ends, len(file))
	for n, body := range bodies {
		at := len(file)
		file = append(k.Begin(file, bytes.Repeat([]byte{byte(n)}, l.clear)...), body...)
		file = k.End(file, at, box, uint64(n))
		ends = append(ends, len(file))
	}
	return file, ends
}

// read returns the bodies of the records of a file, read from memory and as a stream, and what is
// wrong with it.
func (k kind) read(t testing.TB, file []byte) ([]string, Damage) {
	t.Helper()
	found, damage := k.readOnce(k.Parse(file, k.keys, purpose))
	again, other := k.readOnce(k.NewReader(bytes.NewReader(file), int64(len(file)), k.keys, purpose))
	if fmt.Sprint(found, damage) != fmt.Sprint(again, other) {
		t.Fatalf("from memory %v and %+v, as a stream %v and %+v", found, damage, again, other)
	}
	return found, damage
}

func (k kind) readOnce(r *Reader, err error) ([]string, Damage) {
	if err != nil {
		return []string{err.Error()}, Damage{}
	}
	var found []string
	for r.Next() {
		body, err := r.Open(nil)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		found = append(found, string(body))
	}
	return found, r.Damage()
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	for name, k := range kinds(t) {
		want := append(bodies(5), "T"+strings.Repeat("long", 1000))
		if k.Format != Ledger {
			want = append(want, strings.Repeat("longer than a window ", windowSize/10))
		}
		file, _ := k.write(want)
		if got, damage := k.read(t, file); fmt.Sprint(got) != fmt.Sprint(want) || damage != (Damage{HasMark: true}) {
			t.Errorf("%s: %d records, %+v", name, len(got), damage)
		}
		if k.keys != nil && bytes.Contains(file, []byte("long")) {
			t.Errorf("%s: the file can be read by anybody", name)
		}
	}
}

// The marks and heads of files do not change unintentionally: later releases read them.
func TestTheFormOfFilesIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		Format
		file string
	}{
		"ledger":  {Ledger, "patchbay quota 2\n\x02\x00\x00\x00\xb8\x1a\x74\x82" + "D1"},
		"answers": {Answers, "pbj2\x02\x00\x00\x00\x01\x9d\xc8\x90" + strings.Repeat("\x00", 8) + "D1"},
		"calls":   {Calls, "PBCALLS2\x00\x00\x02\x00\x00\x00\xdd\xd4\x2f\xaa" + strings.Repeat("\x00", 32) + "D1"},
	} {
		k := kind{Format: c.Format}
		if file, _ := k.write([]string{"D1"}); string(file) != c.file {
			t.Errorf("%s is written as %q", name, file)
		}
		if got, damage := k.read(t, []byte(c.file)); fmt.Sprint(got) != "[D1]" || damage.Cut != 0 || damage.IsCorrupt {
			t.Errorf("%s is read as %v, %+v", name, got, damage)
		}
	}
}

// A file that ends anywhere has every record before the cut, and tells how much is no record.
func TestACutLosesTheRecordThatItMeets(t *testing.T) {
	for name, k := range kinds(t) {
		want := bodies(5)
		file, ends := k.write(want)
		whole := -1
		for cut := range len(file) {
			for whole+1 < len(ends) && ends[whole+1] <= cut {
				whole++
			}
			got, damage := k.read(t, file[:cut])
			left := cut
			if whole >= 0 {
				left -= ends[whole]
			}
			if fmt.Sprint(got) != fmt.Sprint(want[:max(whole, 0)]) || damage.IsCorrupt {
				t.Fatalf("%s, cut at %d: %v, %+v", name, cut, got, damage)
			}
			if whole >= 0 && damage.Cut != int64(left) {
				t.Fatalf("%s, cut at %d: %d bytes are said to be no record, want %d", name, cut, damage.Cut, left)
			}
		}
	}
}

// A bit that is wrong never makes a record that was not written, and costs none before it. The
// ledger's readers find those behind it as well.
func TestAFlippedBitLosesTheRecordThatItMeets(t *testing.T) {
	for name, k := range kinds(t) {
		want := bodies(4)
		file, ends := k.write(want)
		for at := ends[0]; at < len(file); at++ {
			hit := 0
			for ends[hit+1] <= at {
				hit++
			}
			for bit := range 8 {
				damaged := bytes.Clone(file)
				damaged[at] ^= 1 << bit
				got, damage := k.read(t, damaged)
				expected := append([]string(nil), want[:hit]...)
				if k.Format == Ledger {
					expected = append(expected, want[hit+1:]...)
				}
				isCorrupt := k.Format == Ledger && hit < len(want)-1
				if fmt.Sprint(got) != fmt.Sprint(expected) || damage.IsCorrupt != isCorrupt || !isCorrupt && damage.Cut == 0 {
					t.Fatalf("%s, bit %d of byte %d: %v, %+v", name, bit, at, got, damage)
				}
			}
		}
	}
}

func TestAFileIsReadWithItsKeyOnly(t *testing.T) {
	file, _ := kind{Answers, keys(t)}.write(bodies(1))
	if _, err := Answers.Parse(file, nil, purpose); !errors.Is(err, seal.ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	other, err := Answers.Parse(file, keys(t), "something else")
	if err != nil || !other.Next() {
		t.Fatal(err)
	}
	if _, err := other.Open(nil); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("for another purpose: %v", err)
	}
}

// fullDisk has room for so many bytes.
type fullDisk struct {
	bytes.Buffer
	room             int
	syncs            int
	failSync, closed bool
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if n := d.room - d.Len(); n < len(p) {
		_, _ = d.Buffer.Write(p[:n])
		return n, syscall.ENOSPC
	}
	return d.Buffer.Write(p)
}

func (d *fullDisk) Sync() error {
	d.syncs++
	if d.failSync {
		return syscall.EIO
	}
	return nil
}

func (d *fullDisk) Close() error {
	d.closed = true
	return nil
}

// A full disk costs the record that found no room, whatever its place.
func TestAFullDiskKeepsWhatItHas(t *testing.T) {
	k := kind{Format: Ledger}
	want := bodies(5)
	file, ends := k.write(want)
	for room := ends[0]; room < len(file); room++ {
		disk := &fullDisk{room: room}
		w, err := NewWriter(disk, file[:ends[0]])
		if err != nil {
			t.Fatal(err)
		}
		written := 0
		for n := range want {
			if err := w.Write(file[ends[n]:ends[n+1]]); err != nil {
				if !durable.IsFull(err) || !errors.Is(w.Err(), err) || !disk.closed {
					t.Fatalf("room for %d: %v, closed %t", room, err, disk.closed)
				}
				break
			}
			written++
		}
		if err := w.Write(file[ends[0]:ends[1]]); err == nil || w.Size() != int64(disk.Len()) {
			t.Fatalf("room for %d: records are written behind a part of one", room)
		}
		if got, _ := k.read(t, disk.Bytes()); fmt.Sprint(got) != fmt.Sprint(want[:written]) {
			t.Fatalf("room for %d: %v", room, got)
		}
	}
}

func TestASyncThatFailsIsNotBelievedLater(t *testing.T) {
	disk := &fullDisk{room: 1 << 20}
	w, err := NewWriter(disk, []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	disk.failSync = true
	if err := w.Sync(w.Size()); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	disk.failSync = false
	if err := w.Sync(w.Size()); !errors.Is(err, syscall.EIO) || w.Synced() != 0 || !disk.closed {
		t.Errorf("%v, %d bytes synced", err, w.Synced())
	}
	if err := w.Write([]byte("more")); err == nil {
		t.Error("the file takes more")
	}
}

func TestThoseWhoSyncTogetherShareASync(t *testing.T) {
	disk := &fullDisk{room: 1 << 20}
	w, err := NewWriter(disk, []byte("head"))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	w.syncing.Lock() // all of them wait for one
	for range 50 {
		wait.Go(func() {
			if err := w.Sync(w.Size()); err != nil {
				t.Error(err)
			}
		})
	}
	w.syncing.Unlock()
	wait.Wait()
	if disk.syncs != 1 {
		t.Errorf("%d syncs", disk.syncs)
	}
	if err := w.Close(); err != nil || !errors.Is(w.Write(nil), ErrClosed) {
		t.Error(err)
	}
}

func TestSeriesNameTheirFiles(t *testing.T) {
	s := Series{"journal-", 12}
	if name := s.Name(7); name != "journal-000000000007.log" {
		t.Error(name)
	}
	for name, want := range map[string]bool{
		"journal-000000000007.log": true, "journal-7.log": false, "journal-000000000007": false, "journal-.log": false,
		"calls-000000000007.log": false, "journal-000000000007.log.corrupt": false, "": false,
	} {
		if number, ok := s.Number(name); ok != want || ok && number != 7 {
			t.Errorf("%q: %d, %t", name, number, ok)
		}
	}
}

const childFile = "PATCHBAY_JOURNAL_CHILD"

// TestMain is also a process that writes records until it is killed.
func TestMain(m *testing.M) {
	path := os.Getenv(childFile)
	if path == "" {
		os.Exit(m.Run())
	}
	file, err := durable.At(filepath.Dir(path)).Append(filepath.Base(path))
	if err != nil {
		panic(err)
	}
	head, _ := Answers.Head(nil, purpose)
	w, err := NewWriter(file, head)
	for n := uint64(0); err == nil; n++ {
		body := strings.Repeat("x", int(n%1000)+1)
		if err = w.Write(Answers.End(append(Answers.Begin(nil), body...), 0, nil, n)); err == nil {
			_, err = fmt.Fprintln(os.Stdout, n) // this record is kept
		}
	}
	panic(err)
}

// What a process was told is kept is there after it was killed.
func TestKilledProcessesLeaveWhatTheyWrote(t *testing.T) {
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "file")
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childFile+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		told := make([]byte, 200*(round+1))
		if _, err := out.Read(told[:1]); err != nil {
			t.Fatal(err)
		}
		n := 1
		for n < len(told) {
			more, err := out.Read(told[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
		lines := strings.Split(string(told), "\n")
		last, err := strconv.Atoi(lines[len(lines)-2])
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found, damage := kind{Format: Answers}.read(t, data)
		if len(found) <= last || damage.IsCorrupt {
			t.Errorf("record %d was written, and %d are there (%+v)", last, len(found), damage)
		}
	}
}

// FuzzReader gives the reader any bytes behind records: it does not fail, takes no more memory than
// the file has, and finds those records.
func FuzzReader(f *testing.F) {
	for _, format := range []Format{Ledger, Answers, Calls} {
		file, ends := kind{Format: format}.write(bodies(3))
		f.Add(uint8(format), file[ends[0]:])
		f.Add(uint8(format), file[ends[1]+1:])
		f.Add(uint8(format), file)
	}
	f.Add(uint8(Answers), []byte("\x3f\xff\xff\xff1234567890123456"))
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		k := kind{Format: Format(number) % Contents}
		k.read(t, data)
		want := bodies(2)
		file, _ := k.write(want)
		found, damage := k.read(t, append(file, data...))
		if len(found) < 2 || fmt.Sprint(found[:2]) != fmt.Sprint(want) || damage.Cut > int64(len(data)) {
			t.Errorf("%v, %+v", found, damage)
		}
	})
}
