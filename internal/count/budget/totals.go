package budget

import (
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
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

// keepTotals is how long totals are kept after the end of their window.
const keepTotals = time.Hour

// entry is what one process tells the others in a sheet: its commitment and, in the sheet of a run,
// the terms, the beginning and the latest use of the run as the process knows them.
type entry struct {
	Committed
	began, used int64 // in seconds
	terms       Terms
}

// numbers returns the numbers of an entry in the order of its text.
func (e *entry) numbers() []*int64 {
	all := []*int64{&e.Order}
	for unit := range e.Amounts {
		all = append(all, &e.Amounts[unit], &e.Reserved[unit])
	}
	return append(all, &e.began, &e.used)
}

// text returns the text of an entry of a process in a sheet. With keys it ends with a signature: no
// entry can be moved to another account, window or process, or changed.
func (e *entry) text(keys *seal.Keys, sheet, process string) string {
	text := writeNumbers(e.numbers()) + " " + e.terms.String()
	if keys == nil {
		return text
	}
	return text + " " + keys.Sign(append(signedPlace(sheet, process), text)...)
}

// signedPlace returns the texts before that of an entry under its signature.
func signedPlace(sheet, process string) []string { return []string{"budget total", sheet, process} }

// readEntry reads the entry of a process in a sheet. It fails for texts that no gateway writes and, with
// keys, for texts that no gateway with the master key has signed.
func readEntry(keys *seal.Keys, sheet, process, text string) (e entry, ok bool) {
	if keys != nil {
		at := strings.LastIndexByte(text, ' ')
		if at < 0 || keys.Verify(text[at+1:], append(signedPlace(sheet, process), text[:at])...) != nil {
			return e, false
		}
		text = text[:at]
	}
	numbers := e.numbers()
	rest, ok := readNumbers(text, numbers)
	if ok {
		e.terms, ok = ReadTerms(rest)
	}
	return e, ok && e.Order <= lastOrder && e.Reserved.greater(e.Amounts) == e.Amounts
}

// writeNumbers returns a text of numbers with a space between two of them.
func writeNumbers(numbers []*int64) string {
	var text []byte
	for _, n := range numbers {
		text = strconv.AppendInt(append(text, ' '), *n, 10)
	}
	return string(text[1:])
}

// readNumbers reads the numbers at the beginning of a text, and returns the text behind them. It
// fails for texts that writeNumbers does not return, and for numbers below 0.
func readNumbers(text string, to []*int64) (rest string, ok bool) {
	rest = text
	for _, n := range to {
		var number string
		var err error
		number, rest, _ = strings.Cut(rest, " ")
		*n, err = strconv.ParseInt(number, 10, 64)
		if err != nil || *n < 0 || strconv.FormatInt(*n, 10) != number {
			return "", false
		}
	}
	return rest, true
}

// place returns the name of the sheet of a window of the account.
func (s *state) place(one *span) string {
	from := time.Unix(one.start, 0).UTC().Format("20060102")
	if one.start == 0 {
		from = "all"
	}
	return s.book.options.Prefix + ":budget:{" + s.name + "}:" + one.window.String() + ":" + from
}

// sheet returns the place of a window of the account, with an entry of one process. The entry replaces
// the store's text in instead, which is empty unless it is known to be wrong or old.
func (s *state) sheet(one *span, process string, c Committed, instead string) tally.Sheet {
	name := s.place(one)
	e := s.run.entry(c)
	return tally.Sheet{
		Name: name, Expire: s.expiry(one), IsOrdered: true, IsRead: true,
		Totals: []tally.Total{{Writer: process, Numbers: e.text(s.book.options.Keys, name, process), Instead: instead}},
	}
}

// entry returns an entry with a commitment and the state of a run.
func (r *run) entry(c Committed) entry {
	e := entry{Committed: c, began: r.began / int64(time.Second), used: r.used / int64(time.Second)}
	if r.terms != nil {
		e.terms = *r.terms
	}
	return e
}
