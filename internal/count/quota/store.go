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

// Filter selects rows. Empty fields match everything.
type Filter struct {
	Tenant, APIKey, User, Service, Model string
	// Windows lists the windows that begin at these moments; where it is nil, the rows
	// belong to the windows in Kinds that began in [From, To).
	Windows  []CalendarWindow
	Kinds    []Window
	From, To time.Time
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

// includes reports whether a row matches the filter.
func (f *Filter) includes(row *Row) bool {
	if !f.matches(&row.Key) {
		return false
	}
	if f.Windows == nil {
		return slices.Contains(f.Kinds, row.Window) && !row.Start.Before(f.From) && row.Start.Before(f.To)
	}
	return slices.ContainsFunc(f.Windows, func(w CalendarWindow) bool {
		return w.Window == row.Window && w.Start.Equal(row.Start)
	})
}
