// Package tally keeps the state that gateways with one Redis have in common: how many
// gateways run, the age of the store's data, permits of numbers that they share, and totals
// of writers.
//
// A gateway reports to the store twice a second. The store then knows by how many to divide a
// number, and keeps the part of a gateway that is cut off. Everything that gateways share in
// Redis uses these facts: rate limits and the limits of keys, which take permits with the same
// exchange, and the budgets and the ledger, which store totals.
//
// A permit is granted by the store, for numbers that recover within seconds. A total is a
// writer's sum of its own; everybody adds the writers up. A total which is told late or
// twice does no harm, and one that the store lost is told again.
//
// The store has an epoch, which changes when it has lost its data. Gateways then tell
// their totals, and the store grants nothing before all had the time to do so.
//
// While the store does not answer, each gateway takes its part of the rest.
package tally

import (
	"context"
	"time"
)

// Store is the memory that gateways share. One goroutine of a Pool uses it, except for Tell.
// docs/scaling.md describes its decisions for each number; the test of redistally compares it with
// a plain model.
type Store interface {
	// Exchange notes that this gateway is running and knows a number of gateways, reports the
	// use of its permits, and takes more. The grants are in the order of the asks. ErrRefused
	// means that the store took none of it.
	Exchange(ctx context.Context, members int, asks []Ask) (Presence, []Grant, error)
	// Tell stores totals, and returns each sheet as it is then: totals by writer, or nil
	// where it is not read. News makes other gateways see that there are some. It may be
	// called at any time, by any goroutine.
	Tell(ctx context.Context, sheets []Sheet, isNews bool) ([]map[string]string, error)
	// IsSpread reports whether parts of the store can lose their data alone.
	IsSpread() bool
	// Ping reports whether the store answers and can be changed. It leaves the shared
	// state as it was.
	Ping(ctx context.Context) error
	// Leave says that this gateway takes no part any more.
	Leave(ctx context.Context) error
	// Close closes the connection.
	Close()
}

// Times that all gateways and the store agree on.
const (
	// SilentAfter is when a gateway that was not heard of counts as cut off: its
	// share of each limit is then kept for it.
	SilentAfter = time.Second
	// ForgetAfter is when a gateway that is cut off loses its share.
	ForgetAfter = 30 * time.Second
	// SettleTime is how long gateways have to tell their totals after the store has
	// lost its data.
	SettleTime = 1500 * time.Millisecond
	// ProbationTime is how long a store that looks new keeps half of each limit back,
	// because a gateway may know that it is not new.
	ProbationTime = time.Second
	// LeaseTime is how long the store remembers permits that are not spent.
	LeaseTime = 1500 * time.Millisecond
)

// Presence is which gateways the store knows.
type Presence struct {
	// Members is how many there are, and Silent how many of them are cut off.
	Members, Silent int
	// Epoch is the life of the store, and Changes counts the news that gateways told in it.
	Epoch   string
	Changes int64
}

// Ask is a gateway's report about one number, with its wish for more.
type Ask struct {
	Name string
	// Capacity and Rate belong to the limit. Window is the length of a sliding window,
	// 0 for the other algorithms, and WarmUp the length of a warm-up.
	Capacity, Rate int
	Window, WarmUp time.Duration
	// Epoch is the life of the store that granted the Granted permits in total.
	Epoch   string
	Granted int64
	// Number rises with each ask of a limit: a delayed one is not taken for the latest.
	Number int64
	// Returned permits were not used and can be given to others. Below 0 it is the cost
	// of requests beyond the permits they had taken.
	Returned int64
	// Spent permits of a sliding window were used since the last report; below 0 it is
	// the number that turned out unused. Own are all that were used within the window.
	Spent, Own int64
	// Times are when the spent permits were, as far as it is known; others count as spent
	// when the store hears of them.
	Times []Time
	// Outstanding permits are still here, and Want more are wanted. Requests wait for Need of
	// these; the rest is taken in advance.
	Outstanding, Want, Need int64
}

// Time is how long ago permits were spent.
type Time struct {
	Ago     time.Duration
	Permits int64
}

// Grant is the answer to an Ask.
type Grant struct {
	Epoch   string
	Granted int64 // in total
	Permits int64
	// Left is the amount that the store could still grant. Capacity and Rate are the
	// values in force now, which are less during a warm-up.
	Left, Capacity, Rate float64
	// Retry is the time until another permit can be granted; 0 means that there are some.
	Retry time.Duration
}

// Sheet is one place of the store with the totals of writers.
type Sheet struct {
	// Name is the name of the place, and Expire the time when it is not needed any
	// more.
	Name   string
	Expire time.Time
	// Totals are stored, in place of older ones of the same writers: in a sheet of totals
	// that only grow, the greater of each two numbers; in one that IsOrdered, the total
	// with the greater first number.
	Totals    []Total
	IsOrdered bool
	// IsRead makes Tell return the contents of the place.
	IsRead bool
}

// Total is one writer's sum of its own: whole numbers from 0 on, with a space between
// two of them. A text may follow the first of an ordered sheet.
type Total struct {
	Writer, Numbers string
	// Instead is the text that the sheet had when it was found to be wrong. The total takes
	// its place if it is there still.
	Instead string
}
