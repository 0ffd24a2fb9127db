package budget

import (
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Committed is the sum that one process has spent and reserved in a window of an account, as
// it told the others.
type Committed struct {
	// Order is greater for newer sums.
	Order int64
	// Amounts are spent and reserved together; Reserved is the reserved part of them.
	Amounts, Reserved Amounts
}

const (
	// reservedSuffix follows the name of the process in the name of its total of
	// reservations. reservedMark ends that total; gateways of earlier releases skip it
	// because of the mark. The signature of both, with a name that ends in signedSuffix, is
	// no total for them either.
	reservedSuffix, reservedMark = ":reserved", " reserved"
	signedSuffix                 = ":signed"
	// keepTotals is how long totals are kept after the end of their window.
	keepTotals = time.Hour
)

// place returns the name of the sheet of a window of the account.
func (s *state) place(one *span) string {
	from := time.Unix(one.start, 0).UTC().Format("20060102")
	if one.start == 0 {
		from = "all"
	}
	return s.book.options.Prefix + ":budget:{" + s.name + "}:" + one.window().String() + ":" + from
}

// sheet returns the place of a window of the account, with the commitment of one process.
// It replaces the store's text in instead, where that is known to be wrong or old.
func (s *state) sheet(one *span, process string, c Committed, instead told) tally.Sheet {
	sheet := tally.Sheet{
		Name: s.place(one), Expire: s.expiry(one), IsOrdered: true, IsRead: true,
		Totals: []tally.Total{
			{Writer: process, Numbers: write(c.Order, c.Amounts), Instead: instead.amounts},
			{
				Writer: process + reservedSuffix, Numbers: write(c.Order, c.Reserved) + reservedMark,
				Instead: instead.reserved,
			},
		},
	}
	if keys := s.book.options.Keys; keys != nil {
		own := told{amounts: sheet.Totals[0].Numbers, reserved: sheet.Totals[1].Numbers}
		sheet.Totals = append(sheet.Totals, tally.Total{
			Writer:  process + signedSuffix,
			Numbers: strconv.FormatInt(c.Order, 10) + " " + keys.Sign(signedParts(sheet.Name, process, own)...),
			Instead: instead.signed,
		})
	}
	return sheet
}

// told is the entry of one process in a sheet: the texts of its totals and their
// signature.
type told struct{ amounts, reserved, signed string }

// signedParts returns the texts under a signature: nobody can move a total to another
// account, window or process, or change it.
func signedParts(sheet, process string, t told) []string {
	return []string{"budget total", sheet, process, t.amounts, t.reserved}
}

// toldOf returns the entry of a process in a sheet.
func toldOf(all map[string]string, process string) told {
	return told{amounts: all[process], reserved: all[process+reservedSuffix], signed: all[process+signedSuffix]}
}

// isProcess reports whether a name in a sheet names a process.
func isProcess(name string) bool {
	return !strings.HasSuffix(name, reservedSuffix) && !strings.HasSuffix(name, signedSuffix) &&
		name != termsWriter && name != beganWriter && name != usedWriter
}

// read returns the commitment of a process, and reports whether the process told its
// reservations apart. A gateway of an earlier release tells no reservations, and
// reservations of another order belong to another total of the process: all of it counts as
// spent then. It fails for texts that no gateway writes.
func (t told) read() (c Committed, isSplit, ok bool) {
	c, ok = read(t.amounts)
	if !ok || c.Order > lastOrder || c.Amounts.lesser(Amounts{}) != (Amounts{}) ||
		write(c.Order, c.Amounts) != t.amounts {
		return c, false, false
	}
	text, isMarked := strings.CutSuffix(t.reserved, reservedMark)
	reserved, isRead := read(text)
	if !isMarked || !isRead || reserved.Order != c.Order {
		return c, false, true
	}
	c.Reserved = reserved.Amounts
	return c, true, c.Reserved.lesser(Amounts{}) == Amounts{} && c.Reserved.greater(c.Amounts) == c.Amounts
}

// signature returns the signature, and the order that it belongs to.
func (t told) signature() (order, signature string) {
	order, signature, _ = strings.Cut(t.signed, " ")
	return order, signature
}

// write returns the text of an order and amounts. A permit that is not held is left out.
func write(order int64, a Amounts) string {
	text := strconv.FormatInt(order, 10)
	for unit, amount := range a {
		if unit != overdraft || amount != 0 {
			text += " " + strconv.FormatInt(amount, 10)
		}
	}
	return text
}

// read reads an order and amounts.
func read(text string) (c Committed, ok bool) {
	parts := strings.Split(text, " ")
	if least := 1 + overdraft; len(parts) != least && len(parts) != least+1 {
		return c, false
	}
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return c, false
		}
		if i == 0 {
			c.Order = n
		} else {
			c.Amounts[i-1] = n
		}
	}
	return c, true
}
