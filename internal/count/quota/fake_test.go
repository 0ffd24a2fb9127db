package quota

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

var errFault = errors.New("fault on purpose")

// MemorySnapshots is a database that can be away, or lose its answers.
type MemorySnapshots struct {
	mu   sync.Mutex
	rows map[cellID]Row
	// Down fails everything; Mute does what it is told and then says it failed.
	Down, Mute bool
	Writes     int
}

func (m *MemorySnapshots) Write(_ context.Context, rows []Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Writes++
	if m.Down {
		return errFault
	}
	if m.rows == nil {
		m.rows = map[cellID]Row{}
	}
	for i := range rows {
		merge(m.rows, &rows[i])
	}
	if m.Mute {
		return errFault
	}
	return nil
}

func (m *MemorySnapshots) Read(_ context.Context, filter Filter) ([]Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Down {
		return nil, errFault
	}
	var found []Row
	for _, row := range m.rows {
		if filter.Includes(&row) {
			found = append(found, row)
		}
	}
	slices.SortFunc(found, func(a, b Row) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.Window, b.Window), a.Key.compare(b.Key), cmp.Compare(a.Writer, b.Writer))
	})
	if filter.Limit > 0 {
		found = found[:min(len(found), filter.Limit)]
	}
	return found, nil
}

func (m *MemorySnapshots) Expire(_ context.Context, w Window, before time.Time, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	removed := 0
	for id, row := range m.rows {
		if removed < limit && id.window == w && row.Start.Before(before) {
			delete(m.rows, id)
			removed++
		}
	}
	return removed, nil
}

func (m *MemorySnapshots) Remove(_ context.Context, runs []Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.rows, func(id cellID, _ Row) bool {
		return slices.ContainsFunc(runs, func(r Row) bool {
			return id.window == BudgetRun && id.start == r.Start.Unix() && id.key.APIKey == r.Key.APIKey && id.key.User == r.Key.User
		})
	})
	return nil
}

func (m *MemorySnapshots) Close() error { return nil }

// MemoryShared is what gateways share, with the same faults, all of which are noticed at
// once.
type MemoryShared struct {
	mu             sync.Mutex
	store          *tallytest.Model
	lives, outages int
	Down, Mute     bool
	Spread         bool
	onMeet         func()
}

// NewShared returns an empty store.
func NewShared() *MemoryShared { return &MemoryShared{store: tallytest.New()} }

func (m *MemoryShared) Meet(context.Context) {
	if m.onMeet != nil {
		m.onMeet()
	}
}

func (m *MemoryShared) Tell(_ context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Down {
		m.outages++
		return nil, errFault
	}
	told := m.store.Tell(sheets, isNews)
	if m.Mute {
		m.outages++
		return nil, errFault
	}
	return told, nil
}

func (m *MemoryShared) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Down || m.Mute {
		return errFault
	}
	return nil
}

func (m *MemoryShared) Life() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Down || m.Mute {
		return ""
	}
	return fmt.Sprint(m.lives, m.outages)
}

func (m *MemoryShared) IsSpread() bool { return m.Spread }

func (m *MemoryShared) Stats() tally.Stats { return tally.Stats{} }

// Wipe loses everything.
func (m *MemoryShared) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.Flush()
	m.lives++
}

// Rows returns the rows of windows.
func (m *MemoryShared) Rows(windows []CalendarWindow) []Row { return rowsOf(m.store, windows) }

func rowsOf(store *tallytest.Model, windows []CalendarWindow) []Row {
	return readPlaces(windows, store.Tell(places(DefaultSettings().Distributed.KeyPrefix, windows), false))
}

// Teller is a part of Shared.
type Teller interface {
	Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error)
}

// TellRows tells rows, and ReadRows reads those of windows, as a ledger does.
func TellRows(ctx context.Context, store Teller, rows ...Row) error {
	_, err := store.Tell(ctx, sheetsOf(DefaultSettings().Distributed.KeyPrefix, rows, time.Hour), false)
	return err
}

// ReadRows is the opposite of TellRows.
func ReadRows(ctx context.Context, store Teller, windows ...CalendarWindow) ([]Row, error) {
	told, err := store.Tell(ctx, places(DefaultSettings().Distributed.KeyPrefix, windows), false)
	return readPlaces(windows, told), err
}

// memoryDisk is a disk that can refuse, and that can be looked at as it would be
// after a crash.
type memoryDisk struct {
	mu                               sync.Mutex
	files                            map[string]*memoryFile
	failCreate, failWrite, failSync  bool
	failAfter                        int // bytes of a failing write that still arrive
	room                             int // bytes for which there is room, 0 for any number
	creates, writes, syncs, removals int
}

type memoryFile struct {
	disk   *memoryDisk
	data   []byte
	synced int
	closed bool
}

func newMemoryDisk() *memoryDisk { return &memoryDisk{files: map[string]*memoryFile{}} }

func (d *memoryDisk) Make() error { return nil }

func (d *memoryDisk) Append(name string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.creates++
	if d.failCreate {
		return nil, errFault
	}
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	f := &memoryFile{disk: d}
	d.files[name] = f
	return f, nil
}

func (f *memoryFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.writes++
	if f.closed {
		return 0, fs.ErrClosed
	}
	if f.disk.failWrite {
		n := min(f.disk.failAfter, len(p)-1) // a disk that has it all does not fail
		f.data = append(f.data, p[:n]...)
		return n, errFault
	}
	if room := f.disk.room; room > 0 && f.disk.held()+len(p) > room {
		return 0, errFault
	}
	f.data = append(f.data, p...)
	return len(p), nil
}

// held returns how many bytes all files have; mu is held.
func (d *memoryDisk) held() (bytes int) {
	for _, f := range d.files {
		bytes += len(f.data)
	}
	return bytes
}

func (d *memoryDisk) Size(name string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return int64(len(f.data)), nil
	}
	return 0, fs.ErrNotExist
}

func (f *memoryFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	if f.disk.failSync {
		return errFault
	}
	f.synced = len(f.data)
	return nil
}

func (f *memoryFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.closed = true
	return nil
}

func (d *memoryDisk) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files)), nil
}

func (d *memoryDisk) Read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[name]; f != nil {
		return bytes.Clone(f.data), nil
	}
	return nil, fs.ErrNotExist
}

func (d *memoryDisk) Remove(names ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		d.removals++
		if d.files[name] == nil {
			return fs.ErrNotExist
		}
		delete(d.files, name)
	}
	return nil
}

func (d *memoryDisk) Move(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[from] == nil {
		return fs.ErrNotExist
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

// afterKill is the disk as it is when the process is dead: all that was written.
func (d *memoryDisk) afterKill() *memoryDisk {
	return d.after(func(f *memoryFile) int { return len(f.data) })
}

// afterPowerLoss is the disk with nothing but what was synced.
func (d *memoryDisk) afterPowerLoss() *memoryDisk {
	return d.after(func(f *memoryFile) int { return f.synced })
}

func (d *memoryDisk) after(length func(*memoryFile) int) *memoryDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newMemoryDisk()
	for name, f := range d.files {
		data := bytes.Clone(f.data[:length(f)])
		next.files[name] = &memoryFile{disk: next, data: data, synced: len(data)}
	}
	return next
}

// last returns the newest segment.
func (d *memoryDisk) last() *memoryFile {
	names, _ := d.Names()
	if len(names) == 0 {
		return nil
	}
	return d.files[names[len(names)-1]]
}
