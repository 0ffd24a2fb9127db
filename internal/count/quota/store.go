package quota

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Row holds the totals of one writer for one key in one window, which only grow.
// Stores keep the greater of the stored and the given values for each writer; the
// usage is the sum over the writers. Writing a row late or repeatedly therefore
// changes nothing.
type Row struct {
	Writer string
	Key    Key
	Window Window
	Start  time.Time
	Totals
}

// Totals are the counted sums: requests, tokens, the tokens of prompts and of
// completions among them, and the cost in 10^-12 of the currency's unit.
type Totals struct{ Requests, Tokens, Prompt, Completion, Cost int64 }

// raise replaces every total by the other's where the other is greater.
func (t *Totals) raise(o Totals) {
	*t = Totals{
		max(t.Requests, o.Requests), max(t.Tokens, o.Tokens),
		max(t.Prompt, o.Prompt), max(t.Completion, o.Completion), max(t.Cost, o.Cost),
	}
}

// Add adds other totals. A cost beyond the greatest number stays at the greatest.
func (t *Totals) Add(o Totals) {
	*t = Totals{
		t.Requests + o.Requests, t.Tokens + o.Tokens,
		t.Prompt + o.Prompt, t.Completion + o.Completion, addCost(t.Cost, o.Cost),
	}
}

// ErrReplaced means that a store has lost earlier rows, because its files were removed or
// replaced.
var ErrReplaced = errors.New("the files of the database were removed or replaced")

// Snapshots is the store that keeps totals for good.
type Snapshots interface {
	// Write stores rows, each with the greater of the stored and the given
	// values. After an error any part of them may be stored; ErrReplaced says that
	// rows which were stored before are gone as well. The slice is not retained.
	Write(ctx context.Context, rows []Row) error
	// Read returns the rows that match a filter.
	Read(ctx context.Context, filter Filter) ([]Row, error)
	// Expire removes at most limit rows of a window that began before a moment,
	// and returns how many it removed.
	Expire(ctx context.Context, window Window, before time.Time, limit int) (int, error)
	// Remove removes all rows of runs, whose API keys, users and starts are given.
	Remove(ctx context.Context, runs []Row) error
	// Close closes the connection to the store.
	Close() error
}

// CalendarWindow is one stretch of calendar time: a kind of window and the moment of
// its beginning.
type CalendarWindow struct {
	Window Window
	Start  time.Time
}

// Range is the windows of one kind that began in [From, To).
type Range struct {
	Window   Window
	From, To time.Time
}

// RangesOf returns the ranges with these windows alone.
func RangesOf(windows ...CalendarWindow) []Range {
	ranges := make([]Range, len(windows))
	for i, w := range windows {
		ranges[i] = Range{w.Window, w.Start, w.Start.Add(time.Second)}
	}
	return ranges
}

// Filter selects rows of any of the ranges. Empty names match everything.
type Filter struct {
	Tenant, APIKey, User, Service, Model string
	Ranges                               []Range
	// Changed leaves out what a store has that was written before that moment.
	Changed time.Time
	// Limit bounds the number of rows, the newest first; rows of one window and key
	// stay together; 0 sets no bound.
	Limit int
}

func (f *Filter) matches(k *Key) bool {
	return (f.Tenant == "" || f.Tenant == k.Tenant) && (f.APIKey == "" || f.APIKey == k.APIKey) &&
		(f.User == "" || f.User == k.User) && (f.Service == "" || f.Service == k.Service.String()) &&
		(f.Model == "" || f.Model == k.Model)
}

// covers reports whether a window is in one of the ranges.
func (f *Filter) covers(window Window, start time.Time) bool {
	return slices.ContainsFunc(f.Ranges, func(r Range) bool {
		return r.Window == window && !start.Before(r.From) && start.Before(r.To)
	})
}

// Includes reports whether a row matches the filter.
func (f *Filter) Includes(row *Row) bool {
	return f.matches(&row.Key) && f.covers(row.Window, row.Start)
}
