package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Unit is the unit of a Period.
type Unit uint8

// The units, from the shortest to the longest.
const (
	Seconds Unit = iota
	Minutes
	Hours
	Days
	Months

	unitCount = int(Months) + 1
)

var unitNames = [unitCount]string{"s", "m", "h", "d", "mo"}

// unitLengths are the lengths of one unit; of a month, the longest that it can have.
var unitLengths = [unitCount]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 31 * 24 * time.Hour}

// Period is how long something is kept. It keeps the unit it was written with, because
// a month has no fixed length. An amount without a unit is a number of days.
type Period struct {
	Amount int
	Unit   Unit
}

// MostDays bounds periods: dates computed with them stay meaningful.
const MostDays = 100 * 366

const maxPeriod = MostDays * 24 * time.Hour

// String prints the period with its unit.
func (p Period) String() string {
	if int(p.Unit) >= unitCount {
		return fmt.Sprintf("Period(%d, %d)", p.Amount, uint8(p.Unit))
	}
	return strconv.Itoa(p.Amount) + unitNames[p.Unit]
}

// MarshalText prints the period with its unit.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads an amount with an optional unit.
func (p *Period) UnmarshalText(text []byte) error {
	written := strings.ToLower(strings.TrimSpace(string(text)))
	digits := strings.TrimRight(written, "mohds")
	unit := slices.Index(unitNames[:], cmp.Or(written[len(digits):], unitNames[Days]))
	amount, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || unit < 0 {
		return errPeriodShape
	}
	parsed := Period{Amount: int(amount), Unit: Unit(unit)}
	if err := parsed.valid(); err != nil {
		return err
	}
	*p = parsed
	return nil
}

// Before returns the moment that lies p before t. Months are counted by the
// calendar: a day that the resulting month does not have becomes its last day.
func (p Period) Before(t time.Time) time.Time {
	if p.Unit == Months {
		day := t.Day()
		first := t.AddDate(0, 0, 1-day).AddDate(0, -p.Amount, 0)
		last := first.AddDate(0, 1, -1).Day()
		return first.AddDate(0, 0, min(day, last)-1)
	}
	return t.Add(-time.Duration(p.Amount) * unitLengths[p.Unit])
}

// Length returns the length of the period, with months of 31 days.
func (p Period) Length() time.Duration { return time.Duration(p.Amount) * unitLengths[p.Unit] }

var errPeriodShape = say.Error("field.period")

func (p Period) valid() error {
	if int(p.Unit) >= unitCount {
		return errPeriodShape
	}
	if p.Amount < 1 {
		return say.Error("field.least", "least", "1"+unitNames[p.Unit])
	}
	if p.Amount > int(maxPeriod/unitLengths[p.Unit]) {
		return say.Error("field.period_longest")
	}
	return nil
}
