package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	day     = 24 * time.Hour
	// afterMinute is how long after its end a minute is written: the last second was sampled then.
	afterMinute = 2 * time.Second
)

// The logs of the archive.
const (
	ofMinutes = iota
	ofTens

	logCount
)

// logs say how the logs are kept. The numbers of their files are the seconds that they begin at.
var logs = [logCount]struct {
	prefix string
	step   int64         // seconds of a record
	from   Range         // that a record is made of
	back   int64         // how many seconds ago steps can be made of it
	age    time.Duration // of a file
}{
	ofMinutes: {"minutes-", minute, FiveMinutes, 4 * minute, time.Hour},
	ofTens:    {"tens-", 10 * minute, OneDay, 24 * 60 * minute, day},
}

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

// Archive keeps the history of a sampler on disk: the minutes of the last day, and steps of ten
// minutes for as long as the settings say.
type Archive struct {
	options ArchiveOptions

	reading sync.Mutex // held while a long range is read; without mu, which the next minute needs

	mu    sync.Mutex // for the fields below
	logs  [logCount]journal.Log
	saved [logCount]int64 // when the last record begins
	// long are the long ranges that were read since a minute was saved.
	long [rangeCount]*Sampler
}

// OpenArchive opens the archive, and restores the last day of the sampler's history.
func OpenArchive(options ArchiveOptions, now time.Time) (*Archive, error) {
	a := &Archive{options: options}
	dir := durable.At(filepath.Join(options.Dir, folder))
	for n := range a.logs {
		a.logs[n] = journal.Log{Dir: dir, Format: journal.History, Keys: options.Keys, Purpose: purpose,
			Series: journal.Series{Prefix: logs[n].prefix, Digits: 12}, Age: logs[n].age, Fault: a.fault}
		err := dir.Make()
		if err = errors.Join(err, a.logs[n].Find()); err != nil {
			return nil, fmt.Errorf("monitoring.history: %w", err)
		}
	}
	a.each(a.logs[ofMinutes].Files, now.Add(-day).Unix(),
		func(p *past) { options.Sampler.restore(p, OneHour, OneDay) })
	for _, file := range slices.Backward(a.logs[ofTens].Files) {
		a.read(file, 0, func(p *past) {
			if p.Begin <= now.Unix() { // or the clock was ahead
				a.saved[ofTens] = max(a.saved[ofTens], p.Begin)
			}
		})
		if a.saved[ofTens] > 0 {
			break
		}
	}
	a.expire(now)
	options.Sampler.archive = a
	return a, nil
}

func (a *Archive) fault(operation string, err error) {
	a.options.Fault(operation, durable.WithoutPath(err).Error())
}

// Run saves each minute until ctx ends, and then the running one.
func (a *Archive) Run(ctx context.Context) {
	for {
		now := time.Now()
		err := waiting.Pause(ctx, now.Truncate(time.Minute).Add(time.Minute+afterMinute).Sub(now))
		a.save(time.Now(), err != nil)
		if err != nil {
			return
		}
	}
}

// save writes the steps that have ended and were not saved yet, and at the end the running minute.
func (a *Archive) save(now time.Time, isEnd bool) {
	a.options.Flush()
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.long[:])
	for n := range a.logs {
		step := logs[n].step
		a.saved[n] = min(a.saved[n], (now.Unix()/step-1)*step) // the clock may have been ahead
		for at := a.next(n, now.Unix()); at+step <= now.Unix(); at += step {
			a.add(n, a.options.Sampler.span(logs[n].from, at, step))
		}
	}
	a.expire(now)
	if isEnd {
		a.add(ofMinutes, a.options.Sampler.span(FiveMinutes, now.Unix()/minute*minute, minute))
		for n := range a.logs {
			a.logs[n].End()
		}
	}
}

// next returns when the first step begins that was not saved yet, as far back as steps can be made.
// The lock is held, as for all that follows.
func (a *Archive) next(n int, now int64) int64 {
	step := logs[n].step
	return max(a.saved[n]+step, ((now-logs[n].back)/step+1)*step)
}

// add adds a record to a log. A file takes at most an eighth of the room, so removing files keeps the
// bound.
func (a *Archive) add(n int, p *past) {
	a.saved[n] = p.Begin
	if p.Watched == 0 || a.options.IsFull() {
		return
	}
	first, files := uint64(p.Begin), a.logs[n].Files
	if len(files) > 0 {
		first = max(first, files[len(files)-1].First+1)
	}
	err := a.logs[n].Add(time.Unix(p.Begin+logs[n].step, 0), first, int64(a.options.Settings.MaxBytes)/8, nil,
		func(box *seal.Box, place uint64) ([]byte, error) {
			body, err := p.encode()
			return journal.History.End(append(journal.History.Begin(nil), body...), 0, box, place), err
		})
	if err != nil {
		a.fault("write", err)
	}
}

// expire removes minutes after a day, what is too old, and the oldest if there are too many bytes.
// Minutes may have half of them.
func (a *Archive) expire(now time.Time) {
	most := int64(a.options.Settings.MaxBytes)
	minutes := a.logs[ofMinutes].Expire(now, now.Add(-day), most/2)
	a.logs[ofTens].Expire(now, now.Add(-a.options.Settings.Retention.Std()), most-minutes)
}

// each passes on the records of files from a second on, the oldest first.
func (a *Archive) each(files []journal.Part, from int64, yield func(*past)) {
	for _, file := range files {
		if file.Written.Unix() >= from {
			a.read(file, from, yield)
		}
	}
}

var errUnsealed = errors.New("a file of the history is not sealed, and there is a master key")

// read passes on the records of a file from a second on, as far as they can be read.
func (a *Archive) read(file journal.Part, from int64, yield func(*past)) {
	content, err := a.logs[0].Dir.Read(file.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return // it has expired meanwhile
	}
	var r *journal.Reader
	if err == nil {
		r, err = journal.History.Parse(content, a.options.Keys, purpose)
	}
	if err == nil && a.options.Keys != nil && r.Box() == nil {
		err = errUnsealed
	}
	for err == nil && r.Next() {
		var body []byte
		var p *past
		if body, err = r.Open(nil); err == nil {
			p, err = decodePast(body)
		}
		if err == nil && p.Begin >= from {
			yield(p)
		}
	}
	if err != nil {
		a.fault("read", err)
	}
}

// begun returns when the history begins, at the latest at a time.
func (a *Archive) begun(latest time.Time) time.Time {
	if a == nil {
		return latest
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range a.logs {
		if files := a.logs[n].Files; len(files) > 0 && int64(files[0].First) < latest.Unix() {
			latest = time.Unix(int64(files[0].First), 0)
		}
	}
	return latest
}

// of returns a sampler with the history of a range: s, or for a range that is not in memory one with
// what the archive has of it.
func (s *Sampler) of(r Range) *Sampler {
	if int(r) < sampledRanges || s.archive == nil {
		return s
	}
	return s.archive.of(s, r)
}

// of returns a sampler with a long range of the history, which is at most a minute old. One caller at a
// time reads the files, and the others use the result.
func (a *Archive) of(s *Sampler, r Range) *Sampler {
	a.reading.Lock()
	defer a.reading.Unlock()
	long := NewSampler(s.registry, s.current)
	s.mu.RLock()
	long.second = s.latest()
	s.mu.RUnlock()
	a.mu.Lock()
	known, files, next := a.long[r], slices.Clone(a.logs[ofTens].Files), a.next(ofTens, long.second)
	a.mu.Unlock()
	if known != nil {
		return known
	}
	a.each(files, long.second-shapes[r].step*shapes[r].points, func(p *past) {
		if p.Begin < next { // later ones are saved while the files are read
			long.restore(p, r)
		}
	})
	for at := next; at <= long.second; at += logs[ofTens].step {
		long.restore(s.span(OneDay, at, logs[ofTens].step), r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.long[r] = long
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
