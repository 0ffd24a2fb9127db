package audit

import (
	"slices"
	"strings"
	"time"
)

// Act is an operation with what decides how it is recorded.
type Act struct {
	Record
	// Caller distinguishes callers: the token, the person, or the network of a caller without a
	// valid credential, for whom IsStranger is true.
	Caller     string
	IsStranger bool
	// IsLimited is true for callers with a bounded number of records within a minute.
	IsLimited bool
	// SignsIn is true if the operation begins a session, and Folds if equal ones within a minute
	// are one record.
	SignsIn, Folds bool
}

const (
	done    = "done"
	refused = "refused"
)

// isRefused reports whether the operation was refused.
func (a *Act) isRefused() bool { return strings.HasSuffix(a.Result, refused) }

// isLow reports whether the record belongs to the second chain of the gateway.
func (a *Act) isLow() bool {
	return a.SignsIn || a.isRefused() || a.Role != "ADMIN" && a.Role != "OPERATOR" && a.Who != Self
}

// clean prepares the record. What a stranger asks for is not told apart, unless it was done, such
// as a logout.
func (a *Act) clean() {
	a.Record.clean()
	if a.IsStranger && a.isRefused() {
		a.Action, a.Object, a.Result = SignIn, "", refused
	}
}

// folds count operations that are not recorded one by one. Callers choose how many there are, so
// the number of records, callers and entries is bounded.
type folds map[string]*caller

// caller is what one caller did within the last minute.
type caller struct {
	isStranger bool
	// records and changes are the times of its records of sign-ins and refused operations, and
	// of its changes.
	records, changes window
	entries          map[string]*entry
}

// entry counts equal operations after the first one. Its intent is that of the last one.
type entry struct {
	Intent
	began time.Time
}

const (
	// period is how long equal operations are counted, and mostRecords how many records, and how
	// many changes, a caller has within it.
	period      = time.Minute
	mostRecords = 60
	// mostStrangers bounds the callers without a valid credential that are told apart, and
	// mostCallers all callers. All others are one.
	mostStrangers = 64
	mostCallers   = 10_000
	others        = ""
	// rest is the entry of everything beyond mostRecords.
	rest = ""
)

// window has the times within the last period.
type window []time.Time

// isFull reports whether no more fits into the period that ends now.
func (w *window) isFull(now time.Time) bool {
	*w = slices.DeleteFunc(*w, func(t time.Time) bool { return now.Sub(t) >= period })
	return len(*w) >= mostRecords
}

// of returns the caller of an operation.
func (f folds) of(a *Act) *caller {
	name := a.Caller
	if f[name] == nil {
		strangers := 0
		for _, c := range f {
			if c.isStranger {
				strangers++
			}
		}
		if len(f) >= mostCallers || a.IsStranger && strangers >= mostStrangers {
			name, a.Caller, a.Address = others, "", ""
			if a.IsStranger {
				a.Object = "several addresses"
			}
		}
	}
	if f[name] == nil {
		f[name] = &caller{isStranger: a.IsStranger, entries: map[string]*entry{}}
	}
	return f[name]
}

// wait returns how long a caller has to wait before the next change.
func (f folds) wait(a *Act, now time.Time) time.Duration {
	if changes := &f.of(a).changes; a.IsLimited && changes.isFull(now) {
		return (*changes)[0].Add(period).Sub(now)
	}
	return 0
}

// change counts a change of a limited caller, and undo forgets one that changed nothing.
func (f folds) change(a *Act, now time.Time) {
	if a.IsLimited {
		c := f.of(a)
		c.changes = append(c.changes, now)
	}
}

func (f folds) undo(a *Act) {
	if c := f[a.Caller]; c != nil && len(c.changes) > 0 {
		c.changes = c.changes[:len(c.changes)-1]
	}
}

// add reports whether an operation is recorded at once. If not, it is counted in place of an
// earlier one, the id of whose intent is returned.
func (f folds) add(a *Act, intent Intent, now time.Time) (isFirst bool, before string) {
	c := f.of(a)
	r := &intent.Record
	r.Address, r.Object = a.Address, a.Object
	key := strings.Join([]string{r.Who, r.Role, r.Address, r.Action, r.Object, r.Result}, "\n")
	if a.IsStranger {
		key = strings.Join([]string{r.Action, r.Object, r.Result}, "\n")
	}
	found := c.entries[key]
	if needsRecord := found == nil || found.Record.Count == 0; needsRecord && a.IsLimited {
		if c.records.isFull(now) {
			r.Action, r.Object, r.Result, r.Tenant = Folded, "further sign-ins and refused operations", "folded", ""
			r.Gateway = ownerOf(r.Gateway) + low
			key, found = rest, c.entries[rest]
		} else {
			c.records = append(c.records, now)
		}
	}
	if found == nil {
		found = &entry{Intent: intent, began: now}
		found.ID = ""
		c.entries[key] = found
		if key != rest {
			return true, ""
		}
	}
	before = found.ID
	count, address := found.Record.Count+1, found.Record.Address
	if count == 1 {
		found.Record = *r
	}
	if address != r.Address {
		found.Record.Address = a.Caller
	}
	found.ID, found.Record.Count, found.Record.Last = intent.ID, count, r.Time
	return false, before
}

// take returns the records of entries whose period is over. With early it also returns those of
// others, but for those beyond mostRecords unless all are wanted.
func (f folds) take(now time.Time, early, all bool) (records []Intent) {
	for name, c := range f {
		for key, e := range c.entries {
			isOver := now.Sub(e.began) >= period
			if e.Record.Count > 0 && (isOver || all || early && key != rest) {
				records = append(records, e.Intent)
				e.ID, e.Record.Count = "", 0
			}
			if isOver {
				delete(c.entries, key)
			}
		}
		c.records.isFull(now)
		c.changes.isFull(now)
		if len(c.entries)+len(c.records)+len(c.changes) == 0 {
			delete(f, name)
		}
	}
	order := func(r *Record) string { return r.Time + r.Object + r.Address }
	slices.SortFunc(records, func(a, b Intent) int {
		return strings.Compare(order(&a.Record), order(&b.Record))
	})
	return records
}
