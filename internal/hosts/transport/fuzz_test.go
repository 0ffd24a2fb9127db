package transport

import (
	"strings"
	"testing"
)

// Any bytes a backend may send: no panic, no difference between whole and in
// pieces, and no difference from net/http where both take the reply.
func FuzzResponse(f *testing.F) {
	for _, tt := range replies {
		if len(tt.reply) < 4<<10 {
			f.Add(tt.reply)
		}
	}
	f.Fuzz(func(t *testing.T, reply string) {
		if len(reply) > 16<<10 {
			t.Skip("length adds nothing")
		}
		if strings.Count(reply, "HTTP/1.1 101") > 0 {
			return // net/http takes what follows for a body
		}
		compare(t, "fuzz", reply)
		whole, _ := read(t, "POST", reply, 0, 4096)
		for _, step := range []int{1, 13} {
			pieces, _ := read(t, "POST", reply, step, 50)
			// Bytes behind the reply are seen only when they came with it.
			pieces.Kept = whole.Kept
			if pieces != whole {
				t.Errorf("whole: %+v\n%d at a time: %+v", whole, step, pieces)
			}
		}
	})
}
