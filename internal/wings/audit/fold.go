package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// folds count refused operations by who, address, action and minute. Clients choose these, so
// their number is bounded.
type folds map[string]*fold

type fold struct {
	Record
	count  int
	isTold bool // the first one is recorded
}

const (
	// mostFolds bounds the entries; operations beyond are counted together.
	mostFolds = 1000
	// minuteLength is the length of a stamp up to its minute.
	minuteLength = len("2006-01-02T15:04")
)

// add counts a refused operation, and reports whether its record is to be written at once.
// Operations of strangers are failed sign-ins, unless they were done, such as a logout.
func (f folds) add(r *Record) (isFirst bool) {
	minute := r.Time[:minuteLength]
	isKnown := r.Who != ""
	folded := *r
	if !isKnown && !strings.HasSuffix(folded.Result, "done") {
		folded.Action, folded.Object = SignIn, ""
		folded.Result = "refused"
	}
	key := strings.Join([]string{minute, folded.Who, folded.Address, folded.Action, folded.Result}, "\n")
	found := f[key]
	if found == nil && len(f) >= mostFolds {
		folded.Who, folded.Role, folded.Address, folded.Action, folded.Object = "", "", "", SignIn, "several addresses"
		key, isKnown = minute, false
		folded.Result = "refused"
		found = f[key]
	}
	if found == nil {
		f[key] = &fold{Record: folded, isTold: isKnown}
		if isKnown {
			return true
		}
		found = f[key]
	}
	found.count++
	return false
}

// take returns the records of operations in minutes before one, in all minutes if it is empty,
// and forgets them.
func (f folds) take(before string) (records []Record) {
	for _, key := range slices.Sorted(maps.Keys(f)) {
		found := f[key]
		if before != "" && found.Time[:minuteLength] >= before {
			continue
		}
		delete(f, key)
		if found.count == 0 {
			continue
		}
		r := found.Record
		times := fmt.Sprintf("%d times", found.count)
		if found.count == 1 {
			times = "once"
		}
		if found.isTold {
			times += " more"
		}
		r.Result += ", " + times
		records = append(records, r)
	}
	return records
}
