package ratelimit

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// v4 returns one of 2^32 IPv4 addresses.
func v4(n uint32) netip.Addr {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	return netip.AddrFrom4(bytes)
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, perClient := range []bool{false, true} {
			start := time.Now()
			l := New(Settings{Enabled: true, Algorithm: algorithm, Capacity: 200, RefillRate: 10, ClientIPEnable: perClient, WarmUpPeriod: minute}, start)
			now, asked := start, 0
			ask := func() {
				now = now.Add(time.Millisecond)
				asked++
				l.Allow(v4(uint32(asked%4)), now)
			}
			for range 1000 { // windows grow to their size
				ask()
			}
			if n := testing.AllocsPerRun(1000, ask); n != 0 {
				t.Errorf("%v, per client %v: %v allocations", algorithm, perClient, n)
			}
		}
	}
	l := New(DefaultSettings(), time.Now())
	now := time.Now()
	if n := testing.AllocsPerRun(1000, func() { l.Allow(v4(1), now) }); n != 0 {
		t.Errorf("disabled: %v allocations", n)
	}
}

func BenchmarkAllow(b *testing.B) {
	for _, algorithm := range algorithms {
		for name, capacity := range map[string]int{"allowed": maxRate, "refused": 1} {
			settings := Settings{Enabled: true, Algorithm: algorithm, Capacity: capacity, RefillRate: capacity, WarmUpPeriod: minute}
			b.Run(fmt.Sprintf("%v/%s", algorithm, name), func(b *testing.B) { benchmark(b, settings, 1) })
		}
	}
	settings := Settings{Enabled: true, Capacity: maxRate, RefillRate: maxRate, ClientIPEnable: true}
	for _, clients := range []uint32{1, 1000, 1_000_000} {
		b.Run(fmt.Sprintf("clients/%d", clients), func(b *testing.B) { benchmark(b, settings, clients) })
	}
	b.Run("disabled", func(b *testing.B) { benchmark(b, DefaultSettings(), 1) })
}

func benchmark(b *testing.B, settings Settings, clients uint32) {
	b.Run("single", func(b *testing.B) {
		l := New(settings, time.Now())
		now := time.Now()
		b.ReportAllocs()
		for i := uint32(0); b.Loop(); i++ {
			now = now.Add(1)
			l.Allow(v4(i%clients), now)
		}
	})
	b.Run("parallel64", func(b *testing.B) {
		l := New(settings, time.Now())
		start := time.Now()
		var worker atomic.Uint32
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			now := start
			for i := worker.Add(7919); pb.Next(); i++ {
				now = now.Add(1)
				l.Allow(v4(i%clients), now)
			}
		})
	})
}
