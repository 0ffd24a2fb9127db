package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/serve/live"
)

// maxKept is how many calls and changes a screen remembers.
const maxKept = 200

// Screen holds the state of a gateway, for a terminal. It is used by one goroutine.
type Screen struct {
	Style   Style
	Name    string // of the gateway
	state   *Snapshot
	calls   []string // newest first
	changes []string
	rates   []int64 // requests of the last seconds
}

// Take adds an event to the state.
func (s *Screen) Take(e Event) {
	switch {
	case e.Snapshot != nil:
		s.state = e.Snapshot
		s.rates = append(s.rates, e.Snapshot.Total.LastSecond.Requests)
		s.rates = s.rates[max(0, len(s.rates)-60):]
	case e.Call != nil:
		s.calls = remember(s.calls, s.Style.Call(e.Call))
	case e.Change != nil:
		s.changes = remember(s.changes, s.Style.Change(e.Change))
	}
}

func remember(lines []string, line string) []string {
	lines = append([]string{line}, lines...)
	return lines[:min(len(lines), maxKept)]
}

// Known reports whether there is something to show.
func (s *Screen) Known() bool { return s.state != nil }

// Lines returns the lines to show on a terminal of this size; a height of 0 means no end.
func (s *Screen) Lines(width, height int) []string {
	if s.state == nil {
		return []string{"waiting for " + s.Name}
	}
	lines := append(s.head(), "")
	instances := s.instances(width)
	if most := max(height/2, 5); height > 0 && len(instances) > most && len(s.calls) > 0 { // calls need room too
		hidden := len(instances) - most
		instances = append(instances[:most:most], s.Style.paint(faint, fmt.Sprintf("… and %d more", hidden)))
	}
	lines = append(lines, instances...)
	changes, calls := s.changes[:min(len(s.changes), 3)], s.calls
	if len(changes) > 0 {
		lines = append(append(lines, "", s.Style.paint(bold, "CHANGES")), changes...)
	}
	if len(calls) > 0 {
		lines = append(append(lines, "", s.Style.paint(bold, "LAST CALLS")), calls...)
	}
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}

// head sums up the traffic.
func (s *Screen) head() []string {
	state, second, minute := s.state, s.state.Total.LastSecond, s.state.Total.LastMinute
	var inFlight int64
	queued := 0
	for _, service := range state.Services {
		inFlight += service.InFlight
		queued += service.QueueLength
	}
	first := fmt.Sprintf("%s  %s  up %s  version %d", s.Style.paint(bold, "patchbay"), plain(s.Name),
		state.Time.Sub(state.StartedAt).Round(time.Second), state.ConfigVersion)
	if state.Degradation != "NORMAL" && state.Degradation != "" {
		first += "  " + s.Style.paint(yellow, "metrics "+strings.ToLower(state.Degradation))
	}
	errors := fmt.Sprintf("%d", minute.Errors)
	if minute.Errors > 0 {
		errors = s.Style.paint(red, errors)
	}
	traffic := fmt.Sprintf("requests/s %-6d in flight %-5d queued %-4d tokens/s %d in, %d out   %s", second.Requests,
		inFlight, queued, second.TokensIn, second.TokensOut, spark(s.rates))
	lastMinute := fmt.Sprintf("last minute: %d requests, %s errors", minute.Requests, errors)
	// Figures of several service types have a line each: one for all would mean nothing.
	var apart []string
	for _, service := range state.Services {
		if of := service.LastMinute; of.Latency != nil {
			apart = append(apart, fmt.Sprintf("%11s: %d requests%s", service.Service, of.Requests, figures(of)))
		}
	}
	if len(apart) > 1 {
		return append([]string{first, traffic, lastMinute}, apart...)
	}
	return []string{first, traffic, lastMinute + figures(minute)}
}

// figures says how fast requests were.
func figures(of live.Window) string {
	return fmt.Sprintf(", latency %s, first token %s, gateway itself %s", quantiles(of.Latency), quantiles(of.TTFT),
		quantiles(of.Overhead))
}

func quantiles(q *live.Quantiles) string {
	if q == nil {
		return "-"
	}
	return "p50 " + millis(q.P50) + " p95 " + millis(q.P95)
}

// spark draws numbers as bars.
func spark(values []int64) string {
	const bars = "▁▂▃▄▅▆▇█"
	levels := []rune(bars)
	var most int64 = 1
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values[max(0, len(values)-30):] {
		b.WriteRune(levels[v*int64(len(levels)-1)/most])
	}
	return b.String()
}

// instances lists the instances, first the ones that need attention.
func (s *Screen) instances(width int) []string {
	list := slices.Clone(s.state.Instances)
	slices.SortStableFunc(list, func(a, b Instance) int {
		return cmp.Or(
			cmp.Compare(attention(&b), attention(&a)),
			cmp.Compare(b.LastMinute.Requests, a.LastMinute.Requests),
		)
	})
	name := 28
	for i := range list {
		name = max(name, utf8.RuneCountInString(list[i].ID))
	}
	if width > 0 {
		name = min(name, max(28, width-62))
	}
	lines := []string{s.Style.paint(bold, fmt.Sprintf("%-9s %-*s %-10s %-10s %6s %8s %6s %8s", "SERVICE", name,
		"INSTANCE", "HEALTH", "BREAKER", "ACTIVE", "CALLS/M", "ERR/M", "P95"))}
	for i := range list {
		lines = append(lines, s.instance(&list[i], name))
	}
	return lines
}

func attention(i *Instance) int {
	switch {
	case !i.Enabled:
		return 0
	case i.Breaker.State != "CLOSED":
		return 3
	case i.Health == "UNHEALTHY":
		return 2
	}
	return 1
}

func (s *Screen) instance(i *Instance, width int) string {
	health, breaker := i.Health, i.Breaker.State
	if i.Breaker.Forced {
		breaker += "*"
	}
	if !i.Enabled {
		health = "off"
	}
	p95 := "-"
	if i.LastMinute.Latency != nil {
		p95 = millis(i.LastMinute.Latency.P95)
	}
	colour := func(word, padded string) string {
		switch word {
		case "HEALTHY", "CLOSED":
			return s.Style.paint(green, padded)
		case "UNHEALTHY", "OPEN", "OPEN*":
			return s.Style.paint(red, padded)
		}
		return s.Style.paint(yellow, padded)
	}
	id := cut(plain(i.ID), width)
	id += strings.Repeat(" ", max(0, width-utf8.RuneCountInString(id)))
	errors := fmt.Sprintf("%6d", i.LastMinute.Errors)
	if i.LastMinute.Errors > 0 {
		errors = s.Style.paint(red, errors)
	}
	return fmt.Sprintf("%-9s %s %s %s %6d %8d %s %8s", i.Service, id, colour(health, fmt.Sprintf("%-10s", health)),
		colour(breaker, fmt.Sprintf("%-10s", breaker)), i.InFlight, i.LastMinute.Requests, errors, p95)
}

// cut shortens a line to a width, unless that is 0; the codes of colours take none.
func cut(line string, width int) string {
	shown, end, inCode := 0, 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			inCode = true
		case inCode:
			inCode = r != 'm'
		default:
			if shown++; shown == width {
				end = i
			}
		}
	}
	if width <= 0 || shown <= width {
		return line
	}
	line = line[:end] + "…"
	if strings.Contains(line, "\x1b") {
		line += "\x1b[0m"
	}
	return line
}
