package main

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// TestServersAreMeasuredByTheirOwnCount sends requests with equal beginnings to a server, twice:
// what it finds in its cache is what the requests have in common, and nothing from the first time,
// whose words were others.
func TestServersAreMeasuredByTheirOwnCount(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m"}, JournalSize: 1,
		Engine: &engine.Spec{Block: 16, Cache: 100_000, Token: 1e-9, Width: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	requests := fleettest.Desk()[:4]
	want := fleettest.Bound(requests, fleettest.ServedBlock, 0)
	p := &plan{run: replay.Run{Requests: requests, Block: fleettest.ServedBlock, Scale: 0.001, AtOnce: 1}}
	for range 2 {
		m := onServer(context.Background(), p, servers{b.URL()}, b.URL())
		if m.err != nil || m.Requests != 12 || m.Failed != 0 {
			t.Fatalf("%d requests, %d failed: %v", m.Requests, m.Failed, m.err)
		}
		if math.Abs(m.Hit-want) > 0.03 {
			t.Errorf("%.3f of the tokens came from the cache, want about %.3f", m.Hit, want)
		}
	}
}

// TestServersThatCountNothingAreRefused: there would be figures that mean nothing.
func TestServersThatCountNothingAreRefused(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Kind: simulator.LlamaCpp, Models: []string{"m"},
		Engine: &engine.Spec{Block: 16, Cache: 1000, Width: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = run([]string{"-http", "no/patchbay", "-engines", b.URL()}, strings.NewReader(""), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "is it a vLLM?") {
		t.Error(err)
	}
}

// TestServedPromptsFitTheContext keeps the workloads for servers within 32,768 tokens, at one and
// a half tokens for a word.
func TestServedPromptsFitTheContext(t *testing.T) {
	t.Parallel()
	for _, w := range served {
		count := 0
		for _, r := range w.requests() {
			for ; r != nil; r = r.Next {
				count++
				if most := 32768 - r.Outputs; r.Tokens*3/2 > most {
					t.Errorf("%s: a prompt of %d words", w.name, r.Tokens)
				}
			}
		}
		if count < 100 {
			t.Errorf("%s has only %d requests", w.name, count)
		}
	}
}
