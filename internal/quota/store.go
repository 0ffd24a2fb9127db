package quota

import (
	"cmp"
	"context"
	"time"
)

// Row is what one writer has counted in one window: totals that only ever grow.
// Stores keep the greater of what they have and what they are given, writer by
// writer; the truth is the sum over the writers. Giving a row again, late, or
// twice therefore changes nothing.
type Row struct {
	Writer   string
	Key      Key
	Window   Window
	Start    time.Time
	Requests int64
	Tokens   int64
}

// compare orders rows by what identifies them, as a database stores them.
func (r *Row) compare(other *Row) int {
	return cmp.Or(r.Start.Compare(other.Start), cmp.Compare(r.Window, other.Window),
		r.Key.compare(other.Key), cmp.Compare(r.Writer, other.Writer))
}

// Snapshots is the store that keeps totals for good.
type Snapshots interface {
	// Write stores rows, each with the greater of the stored and the given
	// values. After an error any part of them may be stored. The rows are not
	// kept.
	Write(ctx context.Context, rows []Row) error
	// Read returns the rows that a filter lets pass.
	Read(ctx context.Context, filter Filter) ([]Row, error)
	// Expire removes at most limit rows of a window that began before a moment,
	// and returns how many it removed.
	Expire(ctx context.Context, window Window, before time.Time, limit int) (int, error)
	// Close lets go of the store.
	Close() error
}

// Counter is the store that several gateways share while windows are open.
type Counter interface {
	// Push stores rows like Snapshots.Write, and drops each when its window has
	// been over for the given time; a row of nothing is not stored. It reports
	// whether the store was found to have less than it acknowledged before.
	Push(ctx context.Context, rows []Push) (lost bool, err error)
	// Read returns every row of the windows that begin at these moments.
	Read(ctx context.Context, windows []Instance) ([]Row, error)
	// Mark leaves a mark in the store if there is none and returns the one that
	// is there: another one than before means that the store lost its data.
	Mark(ctx context.Context, mark string) (string, error)
	// Close lets go of the store.
	Close()
}

// Push is a row for a Counter.
type Push struct {
	Row
	// Requests and tokens that the Counter acknowledged before.
	SeenRequests, SeenTokens int64
	// Expire is when the row is no longer needed.
	Expire time.Time

	of *cell
}

// Instance is one window at one time.
type Instance struct {
	Window Window
	Start  time.Time
}

// Filter chooses rows. Parts that are empty let everything pass.
type Filter struct {
	Tenant, APIKey, User, Service, Model string
	// Windows lists the windows that begin at these moments; where it is nil,
	// the rows are those of the windows in Kinds that began in [From, To).
	Windows  []Instance
	Kinds    []Window
	From, To time.Time
	// Limit bounds the number of rows, the newest first, with those of one window
	// and key together; 0 sets no bound.
	Limit int
}

func (f *Filter) matches(k *Key) bool {
	return (f.Tenant == "" || f.Tenant == k.Tenant) && (f.APIKey == "" || f.APIKey == k.APIKey) &&
		(f.User == "" || f.User == k.User) && (f.Service == "" || f.Service == k.Service.String()) &&
		(f.Model == "" || f.Model == k.Model)
}

// includes tells whether a row is among those that were asked for.
func (f *Filter) includes(row *Row) bool {
	if !f.matches(&row.Key) {
		return false
	}
	if f.Windows == nil {
		for _, kind := range f.Kinds {
			if kind == row.Window {
				return !row.Start.Before(f.From) && row.Start.Before(f.To)
			}
		}
		return false
	}
	for _, w := range f.Windows {
		if w.Window == row.Window && w.Start.Equal(row.Start) {
			return true
		}
	}
	return false
}
