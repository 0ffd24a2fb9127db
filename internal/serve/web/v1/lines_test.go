package v1

import (
	"sync/atomic"
	"testing"
)

// Lines of batches hold nine tenths of the running requests and never the last place.
func TestLinesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		most   int
		others int64 // requests that are no lines
		want   int   // lines that are let in
	}{
		{1, 0, 1}, {1, 1, 0},
		{2, 0, 1}, {2, 1, 0}, {2, 2, 0},
		{3, 0, 2}, {3, 1, 1}, {3, 2, 0},
		{6, 0, 5}, {6, 3, 2}, {6, 5, 0},
		{10, 0, 9}, {10, 1, 8}, {10, 9, 0}, {10, 12, 0},
		{20, 0, 18}, {20, 1, 18}, {20, 2, 17},
		{0, 500, 50},
	} {
		var running atomic.Int64
		running.Store(row.others)
		var l lines
		got := 0
		for got < 50 && l.take(&running, row.most) {
			got++
		}
		if got != row.want || running.Load() != row.others+int64(got) {
			t.Errorf("most %d, others %d: got %d lines of %d running requests, want %d", row.most, row.others, got,
				running.Load(), row.want)
		}
		for range got {
			l.giveBack(&running)
		}
		if running.Load() != row.others || l.running != 0 {
			t.Errorf("most %d, others %d: got %d running and %d lines at the end", row.most, row.others,
				running.Load(), l.running)
		}
	}
}
