package spend

import (
	"fmt"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

const (
	day = 24 * time.Hour
	// maxSteps bounds the windows that one question reads, and maxRange its length.
	maxSteps = 800
	maxRange = 10 * 366 * day
	// Up to hourly the steps are hours, up to daily they are days, beyond that months, as
	// far as these windows are counted and kept.
	hourly = 2 * day
	daily  = 100 * day
)

var errRange = say.Error("field.spend_range")

// stepOf returns the windows that make up the range of a question: the preferred ones for
// its length, or the nearest that are counted, still kept, and not too many.
func stepOf(from, to, now time.Time, settings *quota.Settings) quota.Window {
	preferred := quota.Month
	if length := to.Sub(from); length <= hourly {
		preferred = quota.Hour
	} else if length <= daily {
		preferred = quota.Day
	}
	order := []quota.Window{preferred}
	for w := preferred + 1; w <= quota.Month; w++ {
		order = append(order, w)
	}
	for w := preferred; w > quota.Minute; w-- {
		order = append(order, w-1)
	}
	for _, w := range order {
		if usable(w, from, to, now, settings) {
			return w
		}
	}
	return preferred
}

// usable reports whether windows that begin at from are counted and still kept.
func usable(w quota.Window, from, to, now time.Time, settings *quota.Settings) bool {
	if !slices.Contains(settings.Windows, w) || w.Start(from).Before(w.Start(settings.Retention.Of(w).Before(now))) {
		return false
	}
	return w == quota.Month || to.Sub(from)/w.End(w.Start(from)).Sub(w.Start(from)) <= maxSteps
}

// windowsIn returns the windows of one kind that tile [from, to), the first one with from in it.
func windowsIn(w quota.Window, from, to time.Time) []quota.CalendarWindow {
	var windows []quota.CalendarWindow
	for at := w.Start(from); at.Before(to) && len(windows) < maxSteps; at = w.End(at) {
		windows = append(windows, quota.CalendarWindow{Window: w, Start: at})
	}
	return windows
}

// isWhole reports whether a kind of window begins at a moment.
func isWhole(w quota.Window, at time.Time) bool { return w.Start(at).Equal(at) }

// before returns the period before [from, to): as many months for whole months, otherwise a
// period of the same length; and the windows that tile it, none if they are not counted or
// not kept any more.
func before(
	step quota.Window, from, to, now time.Time, settings *quota.Settings,
) (start time.Time, windows []quota.CalendarWindow) {
	months := 0
	if isWhole(quota.Month, from) && isWhole(quota.Month, to) {
		months = (to.Year()-from.Year())*12 + int(to.Month()-from.Month())
		start = from.AddDate(0, -months, 0)
	} else {
		start = from.Add(-to.Sub(from))
	}
	// The longest windows that fit are read, because they are fewer, and kept longer.
	for w := quota.Month; ; w-- {
		if isWhole(w, start) && isWhole(w, from) && usable(w, start, from, now, settings) {
			return start, windowsIn(w, start, from)
		}
		if w == quota.Minute || w == step {
			return start, nil
		}
	}
}

// recent returns the windows that show the pace: of the last day for a range of hours,
// otherwise of the last week; none where they are not counted.
func recent(step quota.Window, now time.Time, settings *quota.Settings) []quota.CalendarWindow {
	w, ago := quota.Day, 7*day
	if step < quota.Day {
		w, ago = quota.Hour, day
	}
	if !usable(w, now.Add(-ago), now, now, settings) {
		return nil
	}
	return windowsIn(w, now.Add(-ago), now)
}

// UnmarshalText reads the name of a dimension.
func (d *Dimension) UnmarshalText(name []byte) error {
	i := slices.Index(dimensionNames[:], string(name))
	if i < 0 {
		return fmt.Errorf("want one of %v", dimensionNames)
	}
	*d = Dimension(i)
	return nil
}
