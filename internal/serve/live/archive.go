package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	// purpose is the purpose in the derivation of the keys of sealed files.
	purpose = "history"
	// fineFor is how long the archive keeps minutes, tenMinutes the step of what is older in seconds.
	fineFor    = 24 * time.Hour
	tenMinutes = 600
	day        = 24 * 60 * minute
	// afterMinute is how long after its end a minute is written: the last second was sampled then.
	afterMinute = 2 * time.Second
)

// A file of the archive has the records of at most a day, and the number of the second that its first
// record begins at, or a later one. Fine files have minutes. Each becomes a coarse one.
var (
	fineFiles   = journal.Series{Prefix: "minutes-", Digits: 12}
	coarseFiles = journal.Series{Prefix: "tens-", Digits: 12}
)

// ArchiveOptions are the parts that an Archive depends on.
type ArchiveOptions struct {
	Dir      string // the data directory
	Settings metrics.History
	// Keys seal the files, nil for plain ones.
	Keys    *seal.Keys
	Sampler *Sampler
	// IsFull reports whether the rest of the disk is reserved for more important writes.
	IsFull func() bool
	// Flush makes the sampler see all calls that have ended.
	Flush func()
	// Fault receives failures to read or write.
	Fault func(operation, text string)
}

// Archive keeps the history of a sampler on disk: a record each minute, and for times more than a
// day ago one for ten minutes.
type Archive struct {
	options ArchiveOptions
	dir     *durable.Dir

	mu    sync.Mutex // for the fields below
	files []archived // the oldest first
	// writer writes the last of the files, if it is not nil. number is that of the next record.
	writer *journal.Writer
	box    *seal.Box
	number uint64
	saved  int64 // the minute that was saved last
}

// archived is a file on disk.
type archived struct {
	number uint64
	isFine bool
	size   int64
}

func (f *archived) name() string {
	if f.isFine {
		return fineFiles.Name(f.number)
	}
	return coarseFiles.Name(f.number)
}

// end returns when the last record of the file has ended at the latest.
func (f *archived) end() time.Time { return time.Unix((int64(f.number)/day+1)*day, 0) }

// OpenArchive opens the archive, and restores the last day of the sampler's history.
func OpenArchive(options ArchiveOptions, now time.Time) (*Archive, error) {
	a := &Archive{options: options, dir: durable.At(filepath.Join(options.Dir, folder))}
	entries, err := os.ReadDir(a.dir.Path("."))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("monitoring.history: %w", err)
	}
	for _, entry := range entries {
		one := archived{}
		if one.number, one.isFine = fineFiles.Number(entry.Name()); !one.isFine {
			var isCoarse bool
			if one.number, isCoarse = coarseFiles.Number(entry.Name()); !isCoarse {
				continue
			}
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			one.size = info.Size()
			a.files = append(a.files, one)
		}
	}
	slices.SortFunc(a.files, func(x, y archived) int { return int(x.number) - int(y.number) })
	a.dropReplaced()
	a.maintain(now)
	options.Sampler.archive = a
	from := now.Add(-fineFor).Unix()
	a.each(from, func(p *past) { options.Sampler.restore(p, OneHour, OneDay) })
	return a, nil
}

// dropReplaced removes the fine files of which there is a coarse one: a crash left them.
func (a *Archive) dropReplaced() {
	coarse := map[uint64]bool{}
	for _, one := range a.files {
		coarse[one.number] = coarse[one.number] || !one.isFine
	}
	a.files = slices.DeleteFunc(a.files, func(one archived) bool {
		return one.isFine && coarse[one.number] && a.remove(&one)
	})
}

// Run saves each minute until ctx ends, and then the running one.
func (a *Archive) Run(ctx context.Context) {
	for {
		now := time.Now()
		next := now.Truncate(time.Minute).Add(time.Minute + afterMinute)
		if waiting.Pause(ctx, next.Sub(now)) != nil {
			a.save(time.Now().Truncate(time.Minute))
			a.close()
			return
		}
		a.save(time.Now().Truncate(time.Minute).Add(-time.Minute))
		a.mu.Lock()
		a.maintain(time.Now())
		a.mu.Unlock()
	}
}

func (a *Archive) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endFile()
}

// save writes the minutes that were not saved yet up to one, at most four.
func (a *Archive) save(last time.Time) {
	a.options.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	begin := last.Unix()
	for at := max(a.saved+minute, begin-3*minute); at <= begin; at += minute {
		a.saved = at
		p := a.options.Sampler.minute(at)
		if p.Watched == 0 || a.options.IsFull() {
			continue
		}
		if err := a.write(p); err != nil {
			a.endFile()
			a.options.Fault("write", err.Error())
		}
	}
}

// write adds a record to the last file. The lock is held, as for all that follows.
func (a *Archive) write(p *past) error {
	last := len(a.files) - 1
	if a.writer != nil && (!time.Unix(p.Begin, 0).Before(a.files[last].end()) ||
		a.files[last].size > int64(a.options.Settings.MaxBytes)/8) {
		a.endFile()
	}
	if a.writer == nil {
		if err := a.beginFile(uint64(p.Begin)); err != nil {
			return err
		}
		last = len(a.files) - 1
	}
	record, err := a.record(a.box, a.number, p)
	if err != nil {
		return err
	}
	a.number++
	if err = a.writer.Write(record); err == nil {
		err = a.writer.Sync(a.writer.Size())
	}
	a.files[last].size = a.writer.Size()
	return err
}

// record returns a record with a number, perhaps sealed.
func (a *Archive) record(box *seal.Box, number uint64, p *past) ([]byte, error) {
	body, err := p.encode()
	if err != nil {
		return nil, err
	}
	return journal.History.End(append(journal.History.Begin(nil), body...), 0, box, number), nil
}

func (a *Archive) beginFile(number uint64) error {
	if err := a.dir.Make(); err != nil {
		return err
	}
	if n := len(a.files); n > 0 {
		number = max(number, a.files[n-1].number+1)
	}
	one := archived{number: number, isFine: true}
	out, err := a.dir.Append(one.name())
	if err != nil {
		return err
	}
	head, box := journal.History.Head(a.options.Keys, purpose)
	if a.writer, err = journal.NewWriter(out, head); err != nil {
		a.writer = nil
		return err
	}
	a.box, a.number, a.files = box, 0, append(a.files, one)
	return nil
}

func (a *Archive) endFile() {
	if a.writer != nil {
		_ = a.writer.Close() // every record was synced
		a.writer, a.box = nil, nil
	}
}

// maintain makes old files coarse, and removes files that are too old, and the oldest if there are
// too many bytes.
func (a *Archive) maintain(now time.Time) {
	var total int64
	for i := range a.files {
		one := &a.files[i]
		isWritten := a.writer != nil && i == len(a.files)-1
		if one.isFine && !isWritten && now.Sub(one.end()) >= fineFor {
			if err := a.coarsen(one); err != nil {
				a.options.Fault("write", err.Error())
			}
		}
		total += one.size
	}
	oldest := now.Add(-a.options.Settings.Retention.Std())
	for len(a.files) > 0 {
		one := a.files[0]
		isWritten := a.writer != nil && len(a.files) == 1
		if isWritten || !one.end().Before(oldest) && total <= int64(a.options.Settings.MaxBytes) || !a.remove(&one) {
			return
		}
		total -= one.size
		a.files = a.files[1:]
	}
}

// coarsen replaces a file of minutes by one of ten minutes.
func (a *Archive) coarsen(one *archived) error {
	var steps []*past
	err := a.read(one, func(p *past) {
		p.Begin -= p.Begin % tenMinutes
		if n := len(steps); n > 0 && steps[n-1].Begin == p.Begin {
			steps[n-1].add(p)
			return
		}
		steps = append(steps, p)
	})
	if err != nil {
		return err
	}
	content, box := journal.History.Head(a.options.Keys, purpose)
	for n, p := range steps {
		record, err := a.record(box, uint64(n), p)
		if err != nil {
			return err
		}
		content = append(content, record...)
	}
	coarse := archived{number: one.number, size: int64(len(content))}
	if err = a.dir.Write(coarse.name(), content); err == nil {
		a.remove(one)
		*one = coarse
	}
	return err
}

func (a *Archive) remove(one *archived) bool {
	err := os.Remove(a.dir.Path(one.name()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.options.Fault("delete", err.Error())
		return false
	}
	return true
}

// each passes on the records of files that have some from a second on, the oldest first.
func (a *Archive) each(from int64, yield func(*past)) {
	for i := range a.files {
		if a.files[i].end().Unix() <= from {
			continue
		}
		err := a.read(&a.files[i], func(p *past) {
			if p.Begin >= from {
				yield(p)
			}
		})
		if err != nil {
			a.options.Fault("read", err.Error())
		}
	}
}

var errUnsealed = errors.New("a file of the history is not sealed, and there is a master key")

// read passes on the records of a file.
func (a *Archive) read(one *archived, yield func(*past)) error {
	content, err := a.dir.Read(one.name())
	if err != nil {
		return err
	}
	r, err := journal.History.Parse(content, a.options.Keys, purpose)
	if err != nil {
		return err
	}
	if a.options.Keys != nil && r.Box() == nil {
		return errUnsealed
	}
	for r.Next() {
		body, err := r.Open(nil)
		if err != nil {
			return err
		}
		p, err := decodePast(bytes.Clone(body))
		if err != nil {
			return err
		}
		yield(p)
	}
	return r.Err()
}

// begun returns when the history begins.
func (a *Archive) begun(otherwise time.Time) time.Time {
	if a == nil {
		return otherwise
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.files) == 0 {
		return otherwise
	}
	if first := time.Unix(int64(a.files[0].number), 0); first.Before(otherwise) {
		return first
	}
	return otherwise
}

// of returns a sampler with the history of a range: s, or for a range that is not in memory one with
// what the archive has of it.
func (s *Sampler) of(r Range) *Sampler {
	if int(r) < sampledRanges {
		return s
	}
	long := NewSampler(s.registry, s.current)
	s.mu.RLock()
	long.second = s.second
	s.mu.RUnlock()
	if a := s.archive; a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.each(long.second-shapes[r].step*shapes[r].points, func(p *past) { long.restore(p, r) })
	}
	return long
}

// rekey seals all files with the current key.
func rekey(r *store.Rekeying) error {
	paths, err := filepath.Glob(filepath.Join(r.Path(folder), "*"))
	for _, path := range paths {
		r.Done(path, journal.History.Reseal(path, r.Keys, purpose, r.IsFirst))
	}
	return err
}
