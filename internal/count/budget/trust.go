package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Whoever can write to the store of all gateways could lift or exhaust budgets. So totals are
// believed only if they can be true: the spending of a process is never below 0, and never
// falls. With a master key they are signed, and nobody else's are believed. A gateway replaces totals that it
// does not believe by its own knowledge.

// judgement says which totals of a sheet are believed.
type judgement struct {
	// believed holds the totals of the processes that are believed. better holds the totals
	// that the store should have instead, because its own were not signed or are older than
	// the knowledge of this process.
	believed, better map[string]Committed
	refused          int
}

// judge decides which totals of other processes in a sheet are believed, and takes them over;
// mu is held.
func (s *state) judge(one *span, all map[string]string, now time.Time) judgement {
	j := judgement{believed: make(map[string]Committed, len(all)), better: map[string]Committed{}}
	sheet := s.place(one)
	for process := range all {
		if !isProcess(process) || process == s.book.writer {
			continue
		}
		found, known := toldOf(all, process), one.others[process]
		if known.found == found {
			j.believed[process] = known.Committed
			continue
		}
		c, isSplit, ok := found.read()
		isFalling := known.isSplit && isSplit && c.Order >= known.Order && !known.spentAtMost(c)
		if !ok || !s.book.isSigned(sheet, process, found) || s.book.options.Keys == nil && isFalling {
			j.refused++
			continue
		}
		j.believed[process] = c
		if c.Reserved != (Amounts{}) { // what was settled is told with the time of its use
			s.Touch(now)
		}
		switch {
		case c.Order > known.Order:
			one.others[process] = peer{known.settled, c, now, isSplit, found}
		case c.Order == known.Order:
			most := known.Committed.atLeast(c)
			one.others[process] = peer{known.settled, most, known.changed, known.isSplit && isSplit, found}
		case now.Sub(known.changed) >= 2*beat: // replies may overtake each other
			j.better[process] = known.Committed
		}
	}
	return j
}

// spentAtMost reports whether a process had spent no more than another total says.
func (c Committed) spentAtMost(next Committed) bool {
	before, after := c.Amounts.minus(c.Reserved), next.Amounts.minus(next.Reserved)
	return before.greater(after) == after
}

// atLeast returns the total or, where that says more, another one of the same order.
func (c Committed) atLeast(other Committed) Committed {
	if c.spentAtMost(other) {
		return other
	}
	return c
}

// judgeOwn reports whether a sheet has this process's own total: the one it told just now,
// or a later one.
func (s *state) judgeOwn(sheet tally.Sheet, all map[string]string) bool {
	found := toldOf(all, s.book.writer)
	isSame := found.amounts == sheet.Totals[0].Numbers
	if isSame && (s.book.options.Keys == nil || found.signed == sheet.Totals[2].Numbers) {
		return true
	}
	c, _, ok := found.read()
	if s.book.options.Keys == nil {
		return ok && c.Order <= s.book.order.Load()
	}
	return ok && s.book.isSigned(sheet.Name, s.book.writer, found)
}

// isSigned reports whether a total was made by a gateway with the master key. Without one nothing is signed.
func (b *Book) isSigned(sheet, process string, t told) bool {
	_, signature := t.signature()
	return b.options.Keys == nil || b.options.Keys.Verify(signature, signedParts(sheet, process, t)...) == nil
}

// noteRefused counts totals that were refused, and logs them once an hour for each account; mu is held.
func (s *state) noteRefused(sheet string, refused int) {
	if refused == 0 {
		return
	}
	const warnEvery = time.Hour
	s.book.refusedTotals.Add(int64(refused))
	now := s.book.options.Now()
	if !s.warned.IsZero() && now.Sub(s.warned) < warnEvery {
		return
	}
	s.warned = now
	s.book.options.Log.Warn("totals of a budget that are in Redis are refused: "+
		"they are not signed with the master key, or cannot be true; somebody else writes there, "+
		"or a gateway without the master key",
		"of", s.name, "in", sheet, "totals", refused)
}

// Rekey signs the totals of a sheet, and the terms of a run in it, with the current key.
func Rekey(r *store.Rekeying, sheet string, all map[string]string) error {
	for _, writer := range slices.Collect(maps.Keys(all)) {
		what := sheet + " " + writer
		switch {
		case writer == termsWriter || writer == beganWriter || writer == usedWriter:
			text, err := r.Resigned(all[writer], writer, sheet)
			all[writer] = text
			r.Done(what, err)
		case isProcess(writer):
			t := toldOf(all, writer)
			_, signature := t.signature()
			err := r.Verify(signature, signedParts(sheet, writer, t)...)
			if order, _, _ := strings.Cut(t.amounts, " "); err == nil {
				all[writer+signedSuffix] = order + " " + r.Keys.Sign(signedParts(sheet, writer, t)...)
			}
			r.Done(what, err)
		}
	}
	return nil
}
