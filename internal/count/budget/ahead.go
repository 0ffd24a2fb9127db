package budget

// demand is how much the requests of an account reserve.
type demand struct {
	// now is the sum they reserved since the last beat, and before the sum of the beat
	// before it; requests counts them.
	now, before             Amounts
	requests, requestBefore int
}

// steady is how many requests in a beat make it worth to commit something ahead.
const steady = 2

func (d *demand) count(reserved Amounts) {
	d.now = d.now.plus(reserved)
	d.requests++
}

// next begins a new beat.
func (d *demand) next() {
	d.now, d.before = Amounts{}, d.now
	d.requests, d.requestBefore = 0, d.requests
}

// target returns the amounts to commit ahead: as much as requests reserve within a
// beat.
func (d *demand) target() Amounts {
	if max(d.requests, d.requestBefore) < steady {
		return Amounts{}
	}
	return d.now.greater(d.before)
}

// aheadParts divides the rest of a budget: all gateways together commit ahead at most one
// such part, and keep the others for whoever asks.
const aheadParts = 4

// lookAhead sets the amounts committed ahead: the target, within this gateway's part of the
// rest of each budget; mu is held.
func (s *span) lookAhead(b *Book, latest *Account, target Amounts, members int64) {
	if latest == nil || s.isOut || b.options.Shared.IsAway() {
		s.ahead, s.leased = Amounts{}, Amounts{}
		return
	}
	used, _ := s.figures(b)
	for unit, limit := range latest.bounds(s.kind) {
		if limit > 0 && unit != overdraft {
			target[unit] = max(0, min(target[unit], (limit-used[unit])/(aheadParts*members)))
		} else {
			target[unit] = 0
		}
	}
	s.ahead, s.leased = target, target
}
