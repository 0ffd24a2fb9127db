package fleet

import (
	"fmt"
	"strconv"
	"testing"
	"time"
	"unsafe"
)

// What is remembered of prompts has its bound however many instances there are: the set of
// each block has a bit for every one of them.
func TestMemoryIsBoundedForEveryNumberOfInstances(t *testing.T) {
	for _, instances := range []int{16, 200, 1000} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			f := New(Options{}, time.Unix(0, 0))
			var all []*Instance
			for n := range instances {
				i := f.Instance(strconv.Itoa(n), "m")
				i.cache.capacity = maxCapacity
				all = append(all, i)
			}
			prompt := make([]Block, 16)
			for n := range maxHeld / len(prompt) * 5 / 4 {
				for k := range prompt {
					prompt[k] = Block(n*len(prompt)+k+1) * 0x9e3779b1 & (1<<blockBits - 1)
				}
				f.hold(all[n%instances], prompt)
			}
			x := all[0].model.index
			bytes := cap(x.blocks)*int(unsafe.Sizeof(held{})) + 8*cap(x.sets) + 4*cap(x.buckets)
			for _, h := range x.holders {
				bytes += cap(h.order.entries)*int(unsafe.Sizeof(recent{})) + 4*cap(h.order.buckets)
			}
			if bytes > 32<<20 {
				t.Errorf("%d blocks take %.1f MB", x.count, float64(bytes)/(1<<20))
			}
		})
	}
}
