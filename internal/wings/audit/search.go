package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// Search returns the newest records that a query asks for. It reads backwards and ends as soon as
// it can.
func (f *Files) Search(ctx context.Context, q Query) (found []Record, total int, err error) {
	var fault error
	may := q.filter()
	next, stop := iter.Pull(f.backward(ctx, false, &q, may, &fault))
	defer stop()
	nextLow, stopLow := iter.Pull(f.backward(ctx, true, &q, may, &fault))
	defer stopLow()
	one, isOne := next()
	other, isOther := nextLow()
	for fault == nil && (isOne || isOther) && (q.Counts || len(found) < q.Limit) {
		r := one
		if isOther && (!isOne || other.Time > one.Time) {
			r = other
			other, isOther = nextLow()
		} else {
			one, isOne = next()
		}
		if total++; total > q.Skip && len(found) < q.Limit {
			found = append(found, r)
		}
	}
	return found, total, fault
}

// backward yields the matching records of the first or the second chain, the newest first.
func (f *Files) backward(ctx context.Context, isLow bool, q *Query, may func(line []byte) bool,
	fault *error) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		list, err := f.segmentsOf(isLow)
		for _, s := range slices.Backward(list) {
			if err == nil {
				err = ctx.Err()
			}
			var matching []Record
			if err == nil {
				matching, err = f.matching(s.file, q, may)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				*fault = err
				return
			}
			for _, r := range slices.Backward(matching) {
				if !yield(r) {
					return
				}
			}
		}
		*fault = errors.Join(*fault, err)
	}
}

// matching returns the matching records of a file, or io.EOF if it and all before it are older
// than the query's times: a file was last written when its last record ended.
func (f *Files) matching(name string, q *Query, may func(line []byte) bool) (matching []Record, err error) {
	if info, err := os.Stat(f.dir.Path(name)); err == nil && Stamp(info.ModTime().Add(time.Minute)) < q.From {
		return nil, io.EOF
	}
	lines, err := f.lines(name)
	for _, line := range lines {
		var r Record
		if may(line) && json.Unmarshal(line, &r) == nil && q.Matches(&r) {
			matching = append(matching, r)
		}
	}
	return matching, err
}

// filter returns a function that reports whether the record of a line may match. It is much faster
// than reading the record.
func (q *Query) filter() func(line []byte) bool {
	var tenants [][]byte
	for _, tenant := range q.Tenants {
		tenants = append(tenants, canonical(tenant)[1:])
	}
	var parts [][]byte
	for _, part := range []string{q.Who, q.What} {
		if part != "" {
			text := canonical(clean(part))
			parts = append(parts, bytes.ToLower(text[1:len(text)-1]))
		}
	}
	return func(line []byte) bool {
		isOf := func(tenant []byte) bool { return bytes.Contains(line, tenant) }
		if q.Tenants != nil && !slices.ContainsFunc(tenants, isOf) {
			return false
		}
		if len(parts) == 0 {
			return true
		}
		lower := bytes.ToLower(line)
		return !slices.ContainsFunc(parts, func(part []byte) bool { return !bytes.Contains(lower, part) })
	}
}
