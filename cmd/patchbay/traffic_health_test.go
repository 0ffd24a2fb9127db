package main

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// restart starts a backend where one was before.
func restart(t *testing.T, url string) *simulator.Backend {
	t.Helper()
	var b *simulator.Backend
	eventually(t, "the address is free again", func() (ok bool) {
		started, err := simulator.Start(simulator.Options{Addr: strings.TrimPrefix(url, "http://"), Record: true})
		b = started
		return err == nil
	})
	t.Cleanup(b.Close)
	return b
}

// A refused connection takes an instance out at once, without waiting for a
// check; when it is back it gets traffic again, and nothing was restarted.
func TestRefusedConnectionMarksAtOnce(t *testing.T) {
	gone, sibling := startBackend(t), startBackend(t)
	// So many failed checks never happen here: the mark is the traffic's.
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 200ms, unhealthy-threshold: 1000}",
		instance("m", gone.URL()), instance("m", sibling.URL())))
	if err := gone.WaitProbes(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	i := r.instances("m")[0]
	gone.Close()
	for n := range 10 {
		answer := r.chat(plainHi).succeeds(t)
		if attempts := answer.header.Get("X-Router-Attempts"); n > 1 && attempts != "1" {
			t.Errorf("request %d took %s attempts", n, attempts)
		}
	}
	if s := i.Health.Snapshot(); s.Status.String() != "UNHEALTHY" || s.Cause != "connection refused" {
		t.Errorf("%v: %s", s.Status, s.Cause)
	}
	back := restart(t, gone.URL())
	eventually(t, "the instance is back", func() bool { return i.Health.Healthy() })
	for range 4 {
		r.chat(plainHi).succeeds(t)
	}
	if got := back.Stats().Arrived; got != 2 {
		t.Errorf("after its return it got %d of 4", got)
	}
}

// With nobody left the caller learns why, for each instance, without addresses.
func TestUnhealthyInstancesAreExplained(t *testing.T) {
	warming, broken := startBackend(t), startBackend(t)
	warming.SetProbe(simulator.Step{Status: 503, Body: `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`})
	broken.SetProbe(simulator.Step{Status: 500})
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 100ms, unhealthy-threshold: 1}",
		instance("m", warming.URL()), instance("m", broken.URL())))
	for _, i := range r.instances("m") {
		eventually(t, "both are found out", func() bool { return !i.Health.Healthy() })
	}
	answer := r.chat(streamHi)
	fault := answer.failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	for _, part := range []string{`"warming up"`, `"unhealthy: status 500"`} {
		if !strings.Contains(string(fault.Details), part) {
			t.Errorf("no %s in %s", part, fault.Details)
		}
	}
	if answer.retryOf(t) != time.Second || answer.header.Get("X-Should-Retry") != "" {
		t.Errorf("headers %v", answer.header)
	}
	noneOf(t, answer.body, warming.URL(), broken.URL())
	if warming.Stats().Arrived+broken.Stats().Arrived != 0 {
		t.Error("an unhealthy instance got a request")
	}
	// What was loading is there after the first good check.
	warming.SetProbe(simulator.Step{})
	eventually(t, "the model is loaded", func() bool { return r.instances("m")[0].Health.Healthy() })
	r.chat(plainHi).succeeds(t)
}

// Checks look and never ask for work, and what runs is none of their business.
func TestChecksNeverTouchLiveTraffic(t *testing.T) {
	held := startBackend(t, simulator.Step{Stop: simulator.StopStall, After: 2})
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 100ms}", instance("m", held.URL(), "max-concurrency: 1")))
	stream := r.stream(deadline(t), streamHi)
	if _, err := stream.next(); err != nil {
		t.Fatal(err)
	}
	if err := held.WaitProbes(deadline(t), len(held.Probes())+3); err != nil {
		t.Fatal(err)
	}
	if i := r.instances("m")[0]; i.InFlight() != 1 || held.Stats().Arrived != 1 {
		t.Errorf("%d in flight, %d requests", i.InFlight(), held.Stats().Arrived)
	}
	for _, probe := range held.Probes() {
		if probe.Method != "GET" || probe.BodyLength > 0 {
			t.Errorf("a check was %s %s", probe.Method, probe.Path)
		}
	}
}
