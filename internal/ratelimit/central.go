package ratelimit

import (
	"context"
	"time"
)

// Central is the store in which gateways keep the limits that they share. One
// goroutine of a Pool uses it. What it decides for each limit is described in
// docs/scaling.md; the test of redislimit compares it with a plain model.
type Central interface {
	// Exchange reports what became of the permits that this gateway had, and takes
	// more. It also tells the other gateways that this one is there, even without asks.
	// The grants are in the order of the asks.
	Exchange(ctx context.Context, members int, asks []Ask) (Presence, []Grant, error)
	// Ping tells whether the store answers, and changes nothing in it.
	Ping(ctx context.Context) error
	// Leave says that this gateway takes no part any more.
	Leave(ctx context.Context) error
	// Close closes the connection.
	Close()
}

// Times that all gateways and the central store agree on.
const (
	// SilentAfter is when a gateway that was not heard of counts as cut off: its
	// share of each limit is then kept for it.
	SilentAfter = time.Second
	// ForgetAfter is when a gateway that is cut off loses its share.
	ForgetAfter = 30 * time.Second
	// SettleTime is how long gateways have after the store has lost its data to report
	// what they know.
	SettleTime = 1500 * time.Millisecond
	// ProbationTime is how long a store that looks new gives each gateway no more than
	// one lease, because a gateway may know that it is not new.
	ProbationTime = time.Second
	// LeaseTime is how long the central store remembers permits that are not spent.
	LeaseTime = 1500 * time.Millisecond
)

// Ask is what a gateway tells the central store about one limit.
type Ask struct {
	Name string
	// Capacity and Rate are those of the Settings. Window is the length of a sliding
	// window, 0 for the other algorithms, and WarmUp that of a warm-up.
	Capacity, Rate int
	Window, WarmUp time.Duration
	// Epoch is the life of the store in which Granted permits were granted in total.
	Epoch   string
	Granted int64
	// Number rises with each ask of a limit, so that one that was delayed is not
	// taken for the latest.
	Number int64
	// Returned permits were not used and can be given to others. Below 0 it is what
	// requests cost beyond what they had taken.
	Returned int64
	// Spent permits of a sliding window were used since the last report; below 0 it is
	// what turned out not to be used. Own are all that were used within the window.
	Spent, Own int64
	// Outstanding permits are still here, and Want more are wanted.
	Outstanding, Want int64
}

// Grant is the answer to an Ask.
type Grant struct {
	Epoch   string
	Granted int64 // in total
	Permits int64
	// Left is what the central store could still grant, and Capacity and Rate what is
	// in force now, which is less during a warm-up.
	Left, Capacity, Rate float64
	// Retry is the time until another permit can be granted.
	Retry time.Duration
}

// Presence is which gateways the central store knows.
type Presence struct {
	// Members is how many there are, and Silent how many of them are cut off.
	Members, Silent int
}
