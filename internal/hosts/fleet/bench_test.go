package fleet_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// randomText returns a text that nothing else shares.
func randomText(rng *rand.Rand, size int) []byte {
	text := make([]byte, size)
	for n := 0; n+8 <= size; n += 8 {
		binary.LittleEndian.PutUint64(text[n:], rng.Uint64())
	}
	return text
}

// team returns a fleet with so many instances of one model.
func team(size int) (*fleet.Fleet, []*fleet.Instance) {
	f := fleet.New(fleet.Options{Secret: fleet.Secret{1}, Gateway: "g"}, time.Unix(0, 0))
	var all []*fleet.Instance
	for n := range size {
		all = append(all, f.Instance(strconv.Itoa(n), "m"))
	}
	return f, all
}

// read returns the prompt of these texts.
func read(texts ...[]byte) *fleet.Prompt {
	p := fleet.NewPrompt(&fleet.Secret{1})
	for _, text := range texts {
		p.Part("user")
		p.Text(text)
	}
	return p
}

// BenchmarkRead reads prompts that come in pieces of 2 KB: at most 25 us for 100 KB.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			text := randomText(rand.New(rand.NewPCG(1, 1)), size)
			p := fleet.NewPrompt(&fleet.Secret{1})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				p.Reset("tenant")
				for at := 0; at < size; at += 2048 {
					p.Part("user")
					p.Text(text[at:min(at+2048, size)])
				}
			}
		})
	}
}

// BenchmarkChoose chooses for prompts of conversations that some instances know to
// different depths, records the choice, and takes it back: at most 3 us among 16
// instances and 8 us among 200.
func BenchmarkChoose(b *testing.B) {
	for _, instances := range []int{1, 16, 200} {
		for _, size := range []int{1 << 10, 100 << 10} {
			b.Run(fmt.Sprintf("instances=%d/prompt=%dKB", instances, size>>10), func(b *testing.B) {
				f, all := team(instances)
				asks := conversations(f, all, size)
				now := time.Unix(1000, 0)
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					f.Choose(all, asks[n%len(asks)], now).Abort(now)
					n++
				}
			})
		}
	}
}

// BenchmarkCall is the whole life of a call among 16 instances, on all processors at once.
func BenchmarkCall(b *testing.B) {
	f, all := team(16)
	asks := conversations(f, all, 8<<10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		now := time.Unix(1000, 0)
		for pb.Next() {
			now = now.Add(time.Millisecond)
			call := f.Choose(all, asks[rng.IntN(len(asks))], now)
			call.First(now.Add(time.Millisecond))
			call.End(fleet.Answer{PromptTokens: 2000, CachedTokens: 1000, OutputTokens: 100}, now.Add(time.Second))
		}
	})
}

// conversations fills the index with 64 conversations of a size, in five kinds with the
// first half in common, and returns their next turns.
func conversations(f *fleet.Fleet, all []*fleet.Instance, size int) []*fleet.Ask {
	rng := rand.New(rand.NewPCG(2, 2))
	var kinds [5][]byte
	for n := range kinds {
		kinds[n] = randomText(rng, size/2)
	}
	var asks []*fleet.Ask
	for n := range 64 {
		own := randomText(rng, size/2)
		for _, part := range [][]byte{own[:len(own)/2], own[:len(own)*3/4]} {
			call := f.Choose(all, &fleet.Ask{Prompt: read(kinds[n%5], part), Tokens: float64(size) / 4}, time.Unix(int64(n), 0))
			call.First(time.Unix(int64(n), 1))
			call.End(fleet.Answer{CachedTokens: -1}, time.Unix(int64(n)+1, 0))
		}
		asks = append(asks, &fleet.Ask{Prompt: read(kinds[n%5], own), Tokens: float64(size) / 4})
	}
	for _, i := range all { // everybody knows the first half of two kinds, and has two calls waiting
		for _, kind := range kinds[:2] {
			f.Choose([]*fleet.Instance{i}, &fleet.Ask{Prompt: read(kind), Tokens: float64(size) / 8}, time.Unix(1000, 0))
		}
	}
	return asks
}

// BenchmarkMemory reports what a fleet of 16 instances keeps after a flood of prompts that
// share nothing.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(memoryAfter(1_000_000))/(1<<20), "MB")
	}
}

// memoryAfter returns how many bytes a fleet of 16 instances keeps after so many prompts
// that share nothing.
func memoryAfter(prompts int) int64 {
	before := heap()
	f, all := team(16)
	for _, i := range all {
		i.Host().Tell(fleet.Told{Waiting: -1, Running: -1, Used: -1, Capacity: 100_000_000}, time.Unix(0, 0))
	}
	p, text := fleet.NewPrompt(&fleet.Secret{1}), make([]byte, 4096)
	for n := range prompts {
		p.Reset("")
		p.Text(strconv.AppendInt(text[:0], int64(n), 10))
		p.Text(text)
		call := f.Choose(all, &fleet.Ask{Prompt: p, Tokens: 1000}, time.Unix(int64(n), 0))
		call.First(time.Unix(int64(n), 1e6))
		call.End(fleet.Answer{PromptTokens: 1000, CachedTokens: 0, OutputTokens: 10}, time.Unix(int64(n), 2e6))
	}
	kept := heap() - before
	runtime.KeepAlive(f)
	return kept
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
