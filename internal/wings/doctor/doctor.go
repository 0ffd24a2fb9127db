// Package doctor finds out why a gateway would not work in its place: it looks at the
// machine, the addresses, the files, the backends and the stores of a configuration,
// changes nothing, and names a remedy for each fault.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Level is the severity of a finding.
type Level string

// The levels. Skip marks a part that is not in use.
const (
	OK   Level = "ok"
	Skip Level = "skip"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Level   Level  `json:"level"`
	Area    string `json:"area"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitzero"`
}

// checkTime is how long one check of the network may take by default.
const checkTime = 15 * time.Second

// Options are the parts to examine.
type Options struct {
	Document *config.Document
	// Running asks the gateway that may run with this configuration; it returns its
	// version, or an error.
	Running func(context.Context) (version string, err error)
	// Version is the version of this program.
	Version string
	// Report gets every finding, in the order of the checks.
	Report func(Finding)
	// CheckTime is how long one check of the network may take, a third of it to connect; 0
	// means 15 seconds.
	CheckTime time.Duration
}

// Run makes all checks. The checks of the network run at the same time.
func Run(ctx context.Context, o Options) {
	client := transport.New(transport.Options{})
	defer client.Close()
	o.CheckTime = cmp.Or(o.CheckTime, checkTime)
	e := &examination{Options: o, client: client}
	areas := []func(context.Context) []Finding{
		e.addresses, e.certificate, e.metrics, e.dataDirectory, e.descriptors,
		e.wings, e.backends, e.redis, e.database, e.sharedConfiguration, e.storedReferences,
	}
	results := make([][]Finding, len(areas))
	var running sync.WaitGroup
	for i, area := range areas {
		running.Go(func() { results[i] = area(ctx) })
	}
	running.Wait()
	for _, findings := range append(results, e.clock()) {
		for _, f := range findings {
			o.Report(f)
		}
	}
}

// examination is one run.
type examination struct {
	Options
	client *transport.Client

	mu    sync.Mutex
	skews []time.Duration // how much the clocks of others are ahead
}

func ok(area, format string, args ...any) Finding {
	return Finding{OK, area, fmt.Sprintf(format, args...), ""}
}

func skip(area, message string) Finding { return Finding{Skip, area, message, ""} }

func warn(area, fix, format string, args ...any) Finding {
	return Finding{Warn, area, fmt.Sprintf(format, args...), fix}
}

func fail(area, fix, format string, args ...any) Finding {
	return Finding{Fail, area, fmt.Sprintf(format, args...), fix}
}

// heard notes the time by the clock of another machine.
func (e *examination) heard(date string) {
	at, err := time.Parse(time.RFC1123, date)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skews = append(e.skews, time.Until(at))
}

// clock compares the clock of this machine with the clocks of the backends.
func (e *examination) clock() []Finding {
	const area = "clock"
	if len(e.skews) == 0 {
		return []Finding{skip(area, "no backend told the time")}
	}
	// The least difference counts: one wrong clock elsewhere is not this machine's.
	least := e.skews[0]
	for _, skew := range e.skews {
		if skew.Abs() < least.Abs() {
			least = skew
		}
	}
	const fix = "set the time, for example with systemd-timesyncd or chrony: certificates, keys that expire and " +
		"quota windows depend on it"
	switch off := least.Round(time.Second); {
	case least.Abs() > 5*time.Minute:
		return []Finding{fail(area, fix, "this machine's clock is %s away from those of the backends", off.Abs())}
	case least.Abs() > 30*time.Second:
		return []Finding{warn(area, fix, "this machine's clock is %s away from those of the backends", off.Abs())}
	}
	return []Finding{ok(area, "agrees with %s", say.Counted(len(e.skews), "backend"))}
}
