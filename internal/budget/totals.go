package budget

import (
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/tally"
)

// Committed is what one process has spent and reserved in a window of an account, as it told
// the others.
type Committed struct {
	// Order is greater for what is newer.
	Order int64
	// Amounts are what was spent and is reserved, and Reserved what of them is reserved.
	Amounts, Reserved Amounts
}

const (
	// reservedSuffix is what the total of reservations has behind the name of its process,
	// and reservedMark what ends it, by which gateways of earlier releases pass over it.
	reservedSuffix, reservedMark = ":reserved", " reserved"
	// keepTotals is how long totals are kept after the end of their window.
	keepTotals = time.Hour
)

// sheet returns the place of a window of the account with what one process has committed.
func (s *state) sheet(one *span, process string, c Committed) tally.Sheet {
	start := time.Unix(one.start, 0).UTC()
	from := start.Format("20060102")
	if one.window == quota.BudgetTotal {
		from = "all"
	}
	return tally.Sheet{
		Name:   s.book.options.Prefix + ":budget:{" + s.name + "}:" + one.window.String() + ":" + from,
		Expire: one.window.End(start).Add(keepTotals), IsOrdered: true, IsRead: true,
		Totals: []tally.Total{
			{Writer: process, Numbers: write(c.Order, c.Amounts)},
			{Writer: process + reservedSuffix, Numbers: write(c.Order, c.Reserved) + reservedMark},
		},
	}
}

// readTotals reads a sheet. A gateway of an earlier release tells no reservations, and one
// of another order belongs to something else that the process told: all of it counts as
// spent then.
func readTotals(all map[string]string) map[string]Committed {
	told := make(map[string]Committed, len(all))
	for process, text := range all {
		c, ok := read(text)
		if !ok {
			continue
		}
		text, _ = strings.CutSuffix(all[process+reservedSuffix], reservedMark)
		if reserved, ok := read(text); ok && reserved.Order == c.Order {
			c.Reserved = reserved.Amounts
		}
		told[process] = c
	}
	return told
}

func write(order int64, a Amounts) string {
	text := strconv.FormatInt(order, 10)
	for _, amount := range a {
		text += " " + strconv.FormatInt(amount, 10)
	}
	return text
}

// read reads an order and amounts.
func read(text string) (c Committed, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != len(c.Amounts)+1 {
		return c, false
	}
	to := []*int64{&c.Order, &c.Amounts[0], &c.Amounts[1], &c.Amounts[2]}
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return c, false
		}
		*to[i] = n
	}
	return c, true
}
