// Package sockets decides how many WebSockets clients may have at a time, and for how long
// one of them may stay.
package sockets

import (
	"fmt"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings bound the WebSockets of clients.
type Settings struct {
	// Connections is how many there may be in all; 0 refuses every one.
	Connections int `json:"connections" minimum:"0"`
	// PerKey is how many WebSockets the bearer of a key may have or, where callers need no
	// key, an address.
	PerKey int `json:"perKey" minimum:"1"`
	// Idle is how long one may stay open without a request or an answer.
	Idle schema.Duration `json:"idle"`
	// Ping is the time between two pings, and how long the client may take to answer one.
	Ping schema.Duration `json:"ping"`
	// Lifetime is how long one may stay open at all. A running request is finished first.
	Lifetime schema.Duration `json:"lifetime"`
}

// DefaultSettings returns the settings of an empty configuration.
func DefaultSettings() Settings {
	return Settings{
		Connections: 1000, PerKey: 100,
		Idle: schema.Duration(10 * time.Minute), Ping: schema.Duration(30 * time.Second),
		Lifetime: schema.Duration(time.Hour),
	}
}

// leastTime is the shortest time that a setting may have.
const leastTime = time.Second

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.Connections < 0 {
		report("connections",
			say.Plain(fmt.Sprintf("must not be negative, not %d (0 refuses every WebSocket)", s.Connections)))
	}
	if s.PerKey < 1 {
		report("perKey", say.New("field.at_least", "least", "1", "found", s.PerKey))
	}
	for path, d := range map[string]schema.Duration{"idle": s.Idle, "ping": s.Ping, "lifetime": s.Lifetime} {
		if d.Std() < leastTime {
			report(path, say.New("field.at_least", "least", leastTime, "found", d.Std()))
		}
	}
}

// Counter counts the WebSockets that are open. Its zero value has none.
type Counter struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

// Verdict says whether one more WebSocket may be opened.
type Verdict uint8

// The verdicts: it may, there are too many in all, or its holder has too many.
const (
	Granted Verdict = iota
	Full
	HolderFull
)

// Open counts one more WebSocket of a holder, unless the verdict is against it. Each that
// was granted has to be closed.
func (c *Counter) Open(holder string, s Settings) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.by[holder] >= s.PerKey:
		return HolderFull
	case c.all >= s.Connections:
		return Full
	}
	if c.by == nil {
		c.by = make(map[string]int)
	}
	c.by[holder]++
	c.all++
	return Granted
}

// Close counts one WebSocket of a holder less.
func (c *Counter) Close(holder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.by[holder]--; c.by[holder] == 0 {
		delete(c.by, holder)
	}
}

// Count returns how many are open.
func (c *Counter) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}
