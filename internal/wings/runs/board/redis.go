package board

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Sheets are places with totals that gateways share; *tally.Pool has them.
type Sheets interface {
	Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error)
}

// redis is a board in the Redis that gateways share. Each stretch of time has sheets of its own, which
// expire with it.
type redis struct {
	sheets Sheets
	prefix string
	slot   time.Duration
	keys   *seal.Keys
	last   atomic.Int64 // the order of the latest runs that were told

	mu   sync.Mutex
	told map[string]time.Time // when each run was told last
	// instead has the texts that displaced runs, by sheet and id, for the next time that these are
	// told.
	instead map[[2]string]string
}

// groups is how many sheets a stretch of time has, so that none of them is large.
const groups = 16

// leastSlot bounds the number of stretches.
const leastSlot = time.Minute

// NewRedis returns a board in sheets whose names have a prefix. Runs that are idle for a time are not
// read any more. Keys, where they are set, sign all runs, and others are not believed.
func NewRedis(sheets Sheets, prefix string, idle time.Duration, keys *seal.Keys) Board {
	return &redis{sheets: sheets, prefix: prefix, slot: max(idle, leastSlot), keys: keys, told: map[string]time.Time{},
		instead: map[[2]string]string{}}
}

// sheet returns the sheet of a group in the stretch of a moment.
func (b *redis) sheet(group int, at time.Time) tally.Sheet {
	from := at.Truncate(b.slot)
	return tally.Sheet{
		Name:   b.prefix + ":runs:{" + strconv.Itoa(group) + "}:" + strconv.FormatInt(from.Unix(), 10),
		Expire: from.Add(3 * b.slot), IsOrdered: true,
	}
}

func groupOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // it never fails
	return int(h.Sum32() % groups)
}

// signed returns the parts under the signature of a run.
func signed(sheet, id, text string) []string { return []string{"run", sheet, id, text} }

func (b *redis) Tell(ctx context.Context, runs []Run) (told int, err error) {
	now := time.Now()
	order := b.order(now)
	var sheets [groups]tally.Sheet
	for i := range runs {
		run := &runs[i]
		group := groupOf(run.ID)
		if sheets[group].Name == "" {
			sheets[group] = b.sheet(group, now)
		}
		data, err := write(run)
		if err != nil {
			return 0, err
		}
		text := strconv.FormatInt(order, 10) + " " + string(data)
		if b.keys != nil {
			text += " " + b.keys.Sign(signed(sheets[group].Name, run.ID, text)...)
		}
		sheets[group].Totals = append(sheets[group].Totals,
			tally.Total{Writer: run.ID, Numbers: text, Instead: b.displacer(sheets[group].Name, run.ID)})
	}
	all := sheets[:0:0]
	for _, sheet := range sheets {
		if sheet.Name != "" {
			all = append(all, sheet)
		}
	}
	if _, err := b.sheets.Tell(ctx, all, false); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range runs {
		b.told[runs[i].ID] = now
	}
	return len(runs), nil
}

// displacer returns the text that displaced a run in a sheet, empty if none did.
func (b *redis) displacer(sheet, id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.instead[[2]string{sheet, id}]
}

// Displaced implements Board.
func (b *redis) Displaced(ctx context.Context) (ids []string, err error) {
	type place struct {
		group int
		slot  int64
	}
	var sheets []tally.Sheet
	at := map[place][]string{}
	b.mu.Lock()
	for id, told := range b.told {
		if time.Since(told) > b.slot+leastSlot {
			delete(b.told, id) // it is told again before, while it is used
			continue
		}
		in := place{groupOf(id), told.Truncate(b.slot).Unix()}
		at[in] = append(at[in], id)
	}
	b.mu.Unlock()
	places := slices.Collect(maps.Keys(at))
	for _, in := range places {
		sheet := b.sheet(in.group, time.Unix(in.slot, 0))
		sheet.IsRead = true
		sheets = append(sheets, sheet)
	}
	if len(sheets) == 0 {
		return nil, nil
	}
	all, err := b.sheets.Tell(ctx, sheets, false)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.instead)
	for i, in := range places {
		for _, id := range at[in] {
			if _, _, ok := b.read(sheets[i].Name, id, all[i][id]); !ok {
				ids = append(ids, id)
				b.instead[[2]string{sheets[i].Name, id}] = all[i][id]
			}
		}
	}
	return ids, nil
}

// order returns the order of what is told at a moment: milliseconds, but always a greater one.
func (b *redis) order(now time.Time) int64 {
	for {
		last := b.last.Load()
		if next := max(last+1, now.UnixMilli()); b.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

func (b *redis) Since(ctx context.Context, since time.Time) ([]Run, error) {
	var sheets []tally.Sheet
	for at := since; ; at = at.Add(b.slot) {
		for group := range groups {
			sheet := b.sheet(group, at)
			sheet.IsRead = true
			sheets = append(sheets, sheet)
		}
		if !at.Truncate(b.slot).Before(time.Now().Truncate(b.slot)) {
			break
		}
	}
	all, err := b.sheets.Tell(ctx, sheets, false)
	if err != nil {
		return nil, err
	}
	latest := map[string]Run{}
	orders := map[string]int64{}
	for i, found := range all {
		for id, text := range found {
			run, order, ok := b.read(sheets[i].Name, id, text)
			if ok && order > orders[id] {
				latest[id], orders[id] = run, order
			}
		}
	}
	runs := make([]Run, 0, len(latest))
	for _, run := range latest {
		runs = append(runs, run)
	}
	return runs, nil
}

// read returns the run in an entry of a sheet, and its order.
func (b *redis) read(sheet, id, text string) (run Run, order int64, ok bool) {
	if b.keys != nil {
		at := strings.LastIndexByte(text, ' ')
		if at < 0 || b.keys.Verify(text[at+1:], signed(sheet, id, text[:at])...) != nil {
			return run, 0, false
		}
		text = text[:at]
	}
	number, data, _ := strings.Cut(text, " ")
	order, err := strconv.ParseInt(number, 10, 64)
	run, ok = read([]byte(data))
	return run, order, ok && err == nil && run.ID == id
}

// Rekey signs the runs of a sheet with the current key.
func Rekey(r *store.Rekeying, sheet string, runs map[string]string) error {
	for id, text := range runs {
		text, err := r.Resigned(text, "run", sheet, id)
		runs[id] = text
		r.Done("the run "+id, err)
	}
	return nil
}

// Sweep does nothing: the sheets expire.
func (b *redis) Sweep(context.Context, time.Time) error { return nil }

// Close does nothing: the sheets belong to the gateway.
func (b *redis) Close() {}
