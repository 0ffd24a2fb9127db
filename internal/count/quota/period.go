package quota

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
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

// Period is how long something is kept. It has the unit in which it was written,
// because a month has no fixed length. An amount without a unit is a number of
// days.
type Period struct {
	Amount int
	Unit   Unit
}

// maxPeriod bounds periods, so that dates computed with them stay meaningful.
const maxPeriod = 100 * 366 * 24 * time.Hour

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
	unit := Days
	if suffix := written[len(digits):]; suffix != "" {
		found, err := parseUnit(suffix)
		if err != nil {
			return err
		}
		unit = found
	}
	amount, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return errPeriodShape
	}
	parsed := Period{Amount: int(amount), Unit: unit}
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
	return t.Add(-time.Duration(p.Amount) * p.Unit.length())
}

var errPeriodShape = errors.New(`want an amount with a unit, such as "12h", "35d" or "13mo"`)

func parseUnit(name string) (Unit, error) {
	for i, known := range unitNames {
		if name == known {
			return Unit(i), nil
		}
	}
	return 0, errPeriodShape
}

func (p Period) valid() error {
	if int(p.Unit) >= unitCount {
		return errPeriodShape
	}
	if p.Amount < 1 {
		return fmt.Errorf("must be at least 1%s", unitNames[p.Unit])
	}
	if p.Amount > int(maxPeriod/p.Unit.length()) {
		return errors.New("must not be longer than 100 years")
	}
	return nil
}

// length returns the length of one unit; of a month, the longest it can have.
func (u Unit) length() time.Duration {
	switch u {
	case Seconds:
		return time.Second
	case Minutes:
		return time.Minute
	case Hours:
		return time.Hour
	case Days:
		return 24 * time.Hour
	}
	return 31 * 24 * time.Hour
}
