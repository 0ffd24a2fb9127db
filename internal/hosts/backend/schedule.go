package backend

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
)

const (
	// firstPause is the time to the next probe of a backend that has just failed; it
	// doubles up to the interval. warmingPause is the time between probes of a
	// backend that loads a model.
	firstPause   = time.Second
	warmingPause = time.Second
	// goneTime is how long a backend that refuses connections is probed at least every
	// gonePause: it is probably being started, and a refusal costs nobody anything.
	goneTime  = 10 * time.Minute
	gonePause = 2 * time.Second
	// minInterval bounds how often a backend is probed, whatever the settings say.
	minInterval = 100 * time.Millisecond
)

// target is everything that a probe depends on. Several models behind one server
// have the same target and are probed once. Headers are part of it, because a
// gateway in between may route by them; keys are not, because a server answers
// whatever the key is.
type target struct {
	origin  transport.Origin
	path    string
	headers string
}

// targetOf returns the target to probe for an instance.
func targetOf(i *Instance) target {
	// A probe uses a connection of its own. So settings of the connection pool, which
	// may differ between instances of one server, are not part of the target.
	return target{i.Origin.Once(), healthPath(i), flattenHeaders(i.headers)}
}

func flattenHeaders(headers map[string]string) string {
	list := make([]wire.Header, 0, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		list = append(list, wire.Header{Name: name, Value: headers[name]})
	}
	return joinHeaders(list)
}

// joinHeaders writes headers as one comparable text; none of them holds a newline.
func joinHeaders(headers []wire.Header) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(h.Name + ":" + h.Value + "\n")
	}
	return b.String()
}

// group is the instances behind one target and when it is probed.
type group struct {
	target
	members []*member
	// interval is the shortest and timeout the longest that a member wants.
	interval, timeout time.Duration
	due               time.Time
	// pause is the time to the next probe of a backend that failed; 0 means that it
	// did not fail.
	pause   time.Duration
	gone    time.Time // since when it refuses connections, zero if it does not
	silent  bool      // the last probe ran into its timeout
	running bool
	cancel  context.CancelFunc
	inquiry inquiry
}

// probeBy brings the next probe forward.
func (g *group) probeBy(due time.Time) {
	if g.due.IsZero() || due.Before(g.due) {
		g.due = due
	}
}

// mergeSettings takes the shortest interval and the longest timeout of the members.
// A shorter interval applies at once.
func (g *group) mergeSettings(now time.Time) {
	before := g.interval
	g.interval, g.timeout = 0, 0
	for _, m := range g.members {
		interval := max(m.settings.Interval.Std(), minInterval)
		if g.interval == 0 || interval < g.interval {
			g.interval = interval
		}
		g.timeout = max(g.timeout, m.settings.Timeout.Std())
	}
	if g.interval < before {
		g.probeBy(now.Add(jitter(g.interval)))
	}
}

// plan decides when the next probe is due.
func (g *group) plan(found finding, cause transport.Cause, now time.Time) {
	delay := g.interval
	switch {
	case found != dead || cause != transport.CauseRefused:
		g.gone = time.Time{}
	case g.gone.IsZero():
		g.gone = now
	}
	switch {
	case found == loading:
		g.pause = 0
		delay = min(delay, warmingPause)
	case found == contradicted, found == alive && g.every(StatusHealthy):
		g.pause = 0
	case found == alive && g.pause > 0: // more successes are needed
		g.pause = firstPause
		delay = min(delay, firstPause)
	case found == dead && !g.any(StatusUnhealthy):
		// It gets traffic until enough checks have failed, so these come soon.
		g.pause = firstPause
		delay = min(delay, firstPause)
	case found == dead:
		g.pause = max(g.pause, firstPause)
		delay = min(delay, g.pause)
		most := g.interval
		if !g.gone.IsZero() && now.Sub(g.gone) < goneTime {
			most = min(most, gonePause)
		}
		g.pause = min(2*g.pause, max(most, firstPause))
	}
	g.due = now.Add(jitter(delay))
}

// publishDue stores the time of the next probe in the health of the members.
// Callers get it in Retry-After.
func (g *group) publishDue() {
	for _, m := range g.members {
		m.health.setNextCheck(g.due)
	}
}

// servedCalls reports whether a call of a member has succeeded since it was asked last,
// and the latest one of that member did not fail.
func (g *group) servedCalls() bool {
	served := false
	for _, m := range g.members {
		now := m.instance.Ended(breaker.Success)
		served = served || now > m.served && !m.instance.troubled.Load()
		m.served = now
	}
	return served
}

func (g *group) any(status Status) bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return m.health.Snapshot().Status == status })
}

func (g *group) every(status Status) bool {
	return !slices.ContainsFunc(g.members, func(m *member) bool { return m.health.Snapshot().Status != status })
}

// jitter varies a duration by 10 % to spread probes over time.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
