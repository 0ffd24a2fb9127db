package budget

import (
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
	keys, sheet := s.book.options.Keys, s.place(one)
	for process, text := range all {
		known := one.others[process]
		if process == s.book.writer {
			continue
		}
		if known.text == text {
			j.believed[process] = known.Committed
			continue
		}
		told, ok := readEntry(keys, sheet, process, text)
		c := told.Committed
		isFalling := c.Order >= known.Order && !known.spentAtMost(c)
		if !ok || keys == nil && isFalling {
			j.refused++
			continue
		}
		j.believed[process] = c
		s.takeRun(&told)
		if c.Reserved != (Amounts{}) { // what was settled is told with the time of its use
			s.touch(now)
		}
		switch {
		case c.Order > known.Order:
			one.others[process] = peer{known.settled, c, now, text}
		case c.Order == known.Order:
			one.others[process] = peer{known.settled, known.Committed.atLeast(c), known.changed, text}
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
	text, keys := all[s.book.writer], s.book.options.Keys
	if text == sheet.Totals[0].Numbers {
		return true
	}
	told, ok := readEntry(keys, sheet.Name, s.book.writer, text)
	return ok && (keys != nil || told.Order <= s.book.order.Load())
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

// Rekey signs the entries of a sheet with the current key.
func Rekey(r *store.Rekeying, sheet string, all map[string]string) error {
	for process, text := range all {
		signed, err := r.Resigned(text, signedPlace(sheet, process)...)
		all[process] = signed
		r.Done(sheet+" "+process, err)
	}
	return nil
}
