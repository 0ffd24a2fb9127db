package budget

import (
	"context"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/takeover"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Whoever can write to the store of all gateways could lift or exhaust budgets. So totals are
// believed only if they can be true: the spending of a process is never below 0, and never
// falls. With a master key they are signed, and nobody else's are believed; package takeover
// has the rules for totals of the release before. A gateway replaces totals that it does not
// believe by its own knowledge.

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
	readsUnsigned := s.book.readsUnsigned(one)
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
		trust := s.book.trust(sheet, process, found)
		isFalling := known.isSplit && isSplit && c.Order >= known.Order && !known.spentAtMost(c)
		if !ok || trust == isForged || trust == isUnsigned && (!readsUnsigned || isFalling) {
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
			continue
		}
		if s.book.options.Keys != nil && (trust == isUnsigned || trust == isSignedBefore && !one.isRead) {
			j.better[process] = c
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
	return ok && s.book.trust(sheet.Name, s.book.writer, found) == isSigned
}

// trust is who made a total.
type trust int

const (
	isSigned       trust = iota // a gateway with the master key
	isSignedBefore              // a gateway with the previous master key
	isUnsigned                  // a gateway of the release before, or anybody
	isForged                    // nobody who may: the signature beside it is wrong
)

// trust returns who made a total. Without a master key nobody signs.
func (b *Book) trust(sheet, process string, t told) trust {
	keys := b.options.Keys
	if keys == nil {
		return isUnsigned
	}
	order, signature := t.signature()
	if keys.Verify(signature, signedParts(sheet, process, t)...) == nil {
		if keys.IsCurrent(signature) {
			return isSigned
		}
		return isSignedBefore
	}
	// A gateway of the release before leaves the signature of the total that it replaced.
	if of, _, _ := strings.Cut(t.amounts, " "); order == of {
		return isForged
	}
	return isUnsigned
}

// readsUnsigned reports whether totals of a span are read without a signature: where nobody
// signs, where the setting says so, and when a span is read for the first time by the process
// that takes over the totals of the release before.
func (b *Book) readsUnsigned(one *span) bool {
	return b.options.Keys == nil || b.options.Takeover.AcceptsUnsigned() || b.isTakingOver() && !one.isRead
}

// isDecided reports whether it is known who takes over the totals of the release
// before.
func (b *Book) isDecided() bool { return b.hasLooked.Load() && b.options.Takeover.IsKnown() }

func (b *Book) isTakingOver() bool {
	return b.options.Keys != nil && b.isDecided() && b.options.Takeover.IsOpen(takeover.Budgets)
}

// noteRefused counts totals that were refused, and says so once an hour for each account.
// Totals that may be taken over in a moment do not count; mu is held.
func (s *state) noteRefused(sheet string, refused int) {
	if refused == 0 || s.book.options.Keys != nil && !s.book.isDecided() {
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
		"or a gateway of the release before or without the master key (see security.accept-unsigned)",
		"of", s.name, "in", sheet, "totals", refused)
}

// The mark says that the totals of all budgets are signed. The store keeps it beside them, for
// gateways that have neither a lasting data directory nor a shared configuration.
const (
	markWriter = "mark"
	markKept   = 10 * 365 * 24 * time.Hour
)

func (b *Book) mark() tally.Sheet {
	return tally.Sheet{
		Name: b.options.Prefix + ":budget:taken-over", Expire: b.options.Now().Add(markKept),
		IsOrdered: true, IsRead: true,
	}
}

// lookForMark finds out whether another gateway has taken over the totals of the release
// before, and sets the mark again where it is missing.
func (b *Book) lookForMark(ctx context.Context) {
	now := b.options.Now()
	if b.options.Keys == nil || b.hasLooked.Load() && now.Sub(b.lookedAt) < longestRest {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max(b.options.Timeout, beat))
	defer cancel()
	mark := b.mark()
	found, err := b.options.Shared.Tell(ctx, []tally.Sheet{mark}, false)
	if err != nil {
		return // the exchange finds out as well
	}
	_, signature, _ := strings.Cut(found[0][markWriter], " ")
	isSet := b.options.Keys.Verify(signature, markWriter, mark.Name) == nil
	records := b.options.Takeover
	if isSet && !b.hasLooked.Load() && (records.IsOpen(takeover.Budgets) || !records.IsKnown()) {
		records.Found(takeover.Budgets)
	}
	isMissing := !isSet || !b.options.Keys.IsCurrent(signature)
	if isMissing && records.IsKnown() && !records.IsOpen(takeover.Budgets) &&
		b.setMark(ctx, found[0][markWriter]) != nil {
		return
	}
	b.lookedAt = now
	b.hasLooked.Store(true)
}

func (b *Book) setMark(ctx context.Context, instead string) error {
	mark := b.mark()
	signed := "1 " + b.options.Keys.Sign(markWriter, mark.Name)
	mark.Totals = []tally.Total{{Writer: markWriter, Numbers: signed, Instead: instead}}
	_, err := b.options.Shared.Tell(ctx, []tally.Sheet{mark}, false)
	return err
}

// finishTakeover notes that the totals of all accounts were read and signed. It waits for a
// second exchange: accounts that come with the start are among them then.
func (b *Book) finishTakeover(ctx context.Context) {
	const rounds = 2
	if !b.isTakingOver() {
		return
	}
	if b.takenOver++; b.takenOver < rounds {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, max(b.options.Timeout, beat))
	defer cancel()
	err := b.setMark(bounded, "")
	if err == nil {
		err = b.options.Takeover.Finish(ctx, takeover.Budgets)
	}
	if err != nil && b.takenOver == rounds {
		b.options.Log.Warn(
			"it cannot be noted that the totals of budgets are signed; this is tried again", "error", err)
	}
}
