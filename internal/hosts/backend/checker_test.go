package backend

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestInstancesAreProbedSoonAndThenEveryIntervalWithJitter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		start := time.Now()
		for k := range 20 {
			n.set(fmt.Sprintf("h%d:80", k), sayOK)
			f.add("m", fmt.Sprintf("http://h%d", k))
		}
		pass(10 * time.Minute)
		firsts, gaps := map[time.Time]bool{}, map[time.Duration]bool{}
		for k := range 20 {
			seen := n.seen(fmt.Sprintf("h%d:80", k))
			if len(seen) < 18 || len(seen) > 23 {
				t.Errorf("h%d was probed %d times in 20 intervals", k, len(seen))
			}
			if wait := seen[0].at.Sub(start); wait > time.Second {
				t.Errorf("h%d waited %v for its first probe", k, wait)
			}
			firsts[seen[0].at] = true
			for p := 1; p < len(seen); p++ {
				gap := seen[p].at.Sub(seen[p-1].at)
				gaps[gap] = true
				if gap < 27*time.Second || gap > 33*time.Second {
					t.Errorf("h%d: %v between two probes", k, gap)
				}
			}
		}
		if len(firsts) < 20 {
			t.Errorf("the first probes of 20 instances came at %d moments", len(firsts))
		}
		if len(gaps) < 100 {
			t.Errorf("only %d different gaps", len(gaps))
		}
	})
}

func TestAnOutageIsNoticedAndItsEndTooWithoutRestart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		if f.status(i) != StatusHealthy {
			t.Fatalf("%v after the first probe", f.status(i))
		}
		n.set("h:80", sayBroken)
		for len(n.seen("h:80")) < 2 {
			pass(100 * time.Millisecond)
		}
		if got := f.of(i).Snapshot(); got.Status != StatusHealthy || got.Cause != "status_500" {
			t.Errorf("after one failure: %+v", got)
		}
		pass(1200 * time.Millisecond)
		if f.of(i).Healthy() {
			t.Error("still healthy a second after the first failure")
		}
		n.set("h:80", sayOK)
		pass(33 * time.Second)
		if f.status(i) != StatusHealthy {
			t.Errorf("%v after the outage", f.status(i))
		}
		want := strings.Join([]string{
			`level=DEBUG msg="health changed" instance=m@http://h service=chat from=UNKNOWN to=HEALTHY cause=""`,
			`level=WARN msg="health changed" instance=m@http://h service=chat from=HEALTHY to=UNHEALTHY cause=status_500`,
			`level=INFO msg="health changed" instance=m@http://h service=chat from=UNHEALTHY to=HEALTHY cause=""`,
		}, "\n") + "\n"
		if got := f.logged(); got != want {
			t.Errorf("log:\n%s\nwant:\n%s", got, want)
		}
	})
}

func TestAFailedCheckIsFollowedByAnotherWithinASecond(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{500 * time.Millisecond, 4 * time.Second, 30 * time.Second} {
		inBubble(t, func(t *testing.T, f *watched, n *network) {
			f.watch(func(s *HealthSettings) { s.Interval, s.UnhealthyThreshold = schema.Duration(interval), 3 })
			n.set("h:80", sayOK)
			f.add("m", "http://h")
			pass(time.Second)
			n.set("h:80", sayBroken)
			before := len(n.seen("h:80"))
			pass(2*interval + time.Second)
			seen := n.seen("h:80")[before:]
			if len(seen) < 2 {
				t.Fatalf("every %v: %d checks of a backend that is broken", interval, len(seen))
			}
			if gap := seen[1].at.Sub(seen[0].at); gap > 1100*time.Millisecond {
				t.Errorf("every %v: the second check came %v after the first that failed", interval, gap)
			}
		})
	}
}

func TestTrafficThatSucceedsCountsForMoreThanAStatusOfTheCheck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		busy, beside := f.add("busy", "http://h"), f.add("beside", "http://h")
		pass(time.Second)
		n.set("h:80", sayBroken)
		serve := func(outcome breaker.Outcome) {
			permit, ok := busy.Acquire(time.Now())
			if !ok {
				t.Fatal("not acquired")
			}
			busy.Release(permit, outcome, time.Now())
		}
		for range 2 * 60 * 10 {
			serve(breaker.Success)
			pass(100 * time.Millisecond)
		}
		for _, i := range []*Instance{busy, beside} {
			if got := f.of(i).Snapshot(); got.Status != StatusHealthy || !f.of(i).Healthy() || got.Cause != "status_500" {
				t.Errorf("%s: %+v while calls of its backend succeed", i.ID, got)
			}
		}
		serve(breaker.Failure)
		pass(35 * time.Second)
		if !f.of(busy).Out() || !f.of(beside).Out() {
			t.Error("still in, although calls and checks fail")
		}
	})
}

// A backend that fails to list its models is in doubt and not out, unless the server behind the
// address is gone.
func TestABackendThatFailsToListItsModelsIsInDoubt(t *testing.T) {
	t.Parallel()
	for status, isDoubted := range map[string]bool{"500 Internal Server Error": true, "501 Not Implemented": true, "502 Bad Gateway": false, "503 Service Unavailable": false} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, f *watched, n *network) {
				n.set("h:80", "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				i := makeInstance(t, "openai", "m", "http://h/v1", nil, nil)
				f.set(i)
				pass(time.Minute)
				if f.status(i) != StatusUnhealthy || f.of(i).Marked() != isDoubted || f.of(i).Out() == isDoubted {
					t.Fatalf("%+v, marked %t", f.of(i).Snapshot(), f.of(i).Marked())
				}
				if f.of(i).Served(time.Now()); f.of(i).Healthy() != isDoubted {
					t.Errorf("%+v after a call that succeeded", f.of(i).Snapshot())
				}
				n.down("h:80")
				if pass(2 * time.Minute); !f.of(i).Out() {
					t.Errorf("%+v, although nobody listens", f.of(i).Snapshot())
				}
			})
		})
	}
}

func TestTrafficDoesNotSpeakAgainstABackendThatIsGone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		permit, ok := i.Acquire(time.Now())
		if !ok {
			t.Fatal("not acquired")
		}
		i.Release(permit, breaker.Success, time.Now())
		n.down("h:80")
		pass(40 * time.Second)
		if !f.of(i).Out() {
			t.Errorf("%+v", f.of(i).Snapshot())
		}
	})
}

func TestAnInstanceMayNameThePathOfItsChecks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.answer("h:80", func(r *http.Request) string {
			if r.URL.Path == "/health" {
				return sayOK
			}
			return sayBroken
		})
		listed := makeInstance(t, "openai", "listed", "http://h/v1", nil, nil)
		named := makeInstance(t, "openai", "named", "http://h/v1", nil, func(s *Settings) { s.HealthPath = "/health" })
		f.set(listed, named)
		pass(time.Minute)
		if !f.of(named).Healthy() || f.of(listed).Healthy() {
			t.Errorf("named %v, listed %v", f.status(named), f.status(listed))
		}
		// The rig keeps the health beside the instances; the reason is read in them.
		listed.Health.watch()
		listed.Health.Failed(time.Now(), 0, "status_500", HealthSettings{UnhealthyThreshold: 1})
		want := "unhealthy: status 500 of GET /v1/models; if the backend serves requests all the same, set the instance's health-path to one that answers, such as /health"
		if got := say.Join(listed.HealthReason()); got != want {
			t.Errorf("reason %q", got)
		}
	})
}

func TestARefusedCallIsFollowedByAProbeWithinASecondAndABackoff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(2 * time.Second)
		n.down("h:80")
		refused := time.Now()
		f.of(i).Refused(refused)
		if f.of(i).Healthy() {
			t.Fatal("not marked at once")
		}
		pass(5 * time.Minute)
		last := refused
		for k, probe := range n.seen("h:80")[1:] {
			gap := probe.at.Sub(last)
			last = probe.at
			want := min(time.Second<<min(max(k-1, 0), 8), gonePause)
			if k == 0 && gap > time.Second || k > 0 && (gap < want*9/10 || gap > want*11/10) {
				t.Errorf("probe %d came after %v, want about %v", k, gap, want)
			}
		}
		n.set("h:80", sayOK)
		pass(3 * time.Second)
		if !f.of(i).Healthy() {
			t.Error("it did not come back as soon as it answers")
		}
		n.down("h:80")
		f.of(i).Refused(time.Now())
		n.set("h:80", sayOK)
		pass(time.Second)
		if !f.of(i).Healthy() {
			t.Error("a short absence was not over within a second")
		}
	})
}

func TestAnInstanceThatWasNeverSeenAliveIsDecidedSoon(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, _ *network) {
		i := f.add("m", "http://h")
		pass(3 * time.Second)
		if got := f.of(i).Snapshot(); got.Status != StatusUnhealthy || got.Cause != "connection_refused" {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecoveryNeedsItsThresholdAndIsNotSlow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		f.watch(func(s *HealthSettings) { s.HealthyThreshold = 3 })
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		f.of(i).Refused(time.Now())
		pass(time.Second)
		if f.of(i).Healthy() {
			t.Error("back after one success of three")
		}
		pass(3 * time.Second)
		if !f.of(i).Healthy() {
			t.Error("three successes took too long")
		}
	})
}

func TestInstancesOfOneServerShareOneProbe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		keyed := func(key string) func(*Settings) { return func(s *Settings) { s.APIKey = Literal(key) } }
		routed := makeInstance(t, "vllm", "routed", "http://h", nil, func(s *Settings) { s.Headers = map[string]Secret{"x-to": Literal("b")} })
		list := []*Instance{
			makeInstance(t, "vllm", "a", "http://h", nil, nil),
			makeInstance(t, "vllm", "b", "http://H:80/", nil, keyed("1")),
			makeInstance(t, "llamacpp", "c", "http://h/v1", nil, keyed("2")),
			routed,
		}
		n.answer("h:80", func(r *http.Request) string {
			if r.Header.Get("x-to") == "b" {
				return sayOK
			}
			return sayBroken
		})
		f.set(list...)
		pass(time.Minute) // the backoff has reached the interval
		before := len(n.seen("h:80"))
		pass(5 * time.Minute)
		if got := len(n.seen("h:80")) - before; got < 17 || got > 23 {
			t.Errorf("%d probes of two targets in 10 intervals", got)
		}
		for _, i := range list[:3] {
			if f.status(i) != StatusUnhealthy {
				t.Errorf("%s is %v", i.ID, f.status(i))
			}
		}
		if f.status(routed) != StatusHealthy {
			t.Errorf("what another header leads to is %v", f.status(routed))
		}
	})
}

func TestAModelThatLoadsIsWarmingAndNotDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		f.watch(func(s *HealthSettings) { s.HealthyThreshold = 5 })
		n.set("h:80", sayLoading)
		i := f.add("m", "http://h")
		pass(2 * time.Minute)
		if got := f.of(i).Snapshot(); got.Status != StatusWarming || got.Cause != "" || f.of(i).Healthy() {
			t.Errorf("while loading: %+v", got)
		}
		n.set("h:80", sayOK)
		pass(2 * time.Second)
		if f.status(i) != StatusHealthy {
			t.Errorf("%v although it answers", f.status(i))
		}
		if strings.Contains(f.logged(), "WARN") {
			t.Errorf("warming is no reason to warn:\n%s", f.logged())
		}
	})
}

func TestEditsAreNoticedWithoutBeingTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		n.set("other:80", sayOK)
		i := f.add("m", "http://h")
		pass(10 * time.Second)
		probes := func(addr string, want int, what string) {
			t.Helper()
			pass(time.Second)
			if got := len(n.seen(addr)); got != want {
				t.Errorf("%s: %d probes, want %d", what, got, want)
			}
		}
		probes("h:80", 1, "first")
		weighed := makeInstance(t, "vllm", "m", "http://h", i.State, func(s *Settings) { s.Weight = 2 })
		f.set(weighed)
		probes("h:80", 1, "weight changed")
		keyed := makeInstance(t, "vllm", "m", "http://h", i.State, func(s *Settings) { s.APIKey = Literal("k") })
		f.set(keyed)
		probes("h:80", 2, "key changed")
		if got := n.seen("h:80")[1].header.Get("Authorization"); got != "Bearer k" {
			t.Errorf("probed with %q", got)
		}
		f.set(makeInstance(t, "openai", "m", "http://h", i.State, nil))
		probes("h:80", 3, "kind changed")
		f.set()
		pass(2 * time.Minute)
		probes("h:80", 3, "removed")
		f.set(makeInstance(t, "vllm", "m", "http://h", nil, nil))
		probes("h:80", 4, "added again")
		f.set(makeInstance(t, "vllm", "m", "http://other", nil, nil))
		probes("other:80", 1, "base URL changed")
		f.watch(func(s *HealthSettings) { s.Interval = schema.Duration(2 * time.Second) })
		pass(time.Minute)
		if got := len(n.seen("other:80")); got < 25 {
			t.Errorf("%d probes a minute with a new interval of 2 s", got)
		}
	})
}

func TestHealthIsKeptThroughAnEditAndFreshForANewInstance(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		i := f.add("m", "http://h")
		pass(time.Minute)
		weighed := makeInstance(t, "vllm", "m", "http://h", i.State, func(s *Settings) { s.Weight = 2 })
		f.set(weighed)
		pass(time.Second)
		if f.status(weighed) != StatusUnhealthy {
			t.Errorf("a weight edit made it %v", f.status(weighed))
		}
		n.set("h:80", sayOK)
		again := makeInstance(t, "vllm", "m", "http://h", nil, nil)
		f.set(again)
		pass(time.Second)
		if f.status(again) != StatusHealthy || f.status(i) != StatusUnknown {
			t.Errorf("new %v, gone %v", f.status(again), f.status(i))
		}
	})
}

func TestUncheckedInstancesAreNotMarked(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]func(*testing.T, *watched, *Instance){
		"checks switched off": func(_ *testing.T, f *watched, _ *Instance) {
			f.watch(func(s *HealthSettings) { s.Enabled = false })
		},
		"instance disabled": func(t *testing.T, f *watched, i *Instance) {
			f.set(makeInstance(t, "vllm", "m", "http://h", i.State, func(s *Settings) { s.Enabled = false }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *watched, n *network) {
				i := f.add("m", "http://h")
				pass(time.Minute)
				if f.of(i).Healthy() {
					t.Fatal("not marked while checks are on")
				}
				off(t, f, i)
				pass(time.Second)
				asked := len(n.seen("h:80"))
				f.of(i).Refused(time.Now())
				if !f.of(i).Healthy() || f.status(i) != StatusUnknown {
					t.Errorf("marked for ever: %+v", f.of(i).Snapshot())
				}
				pass(5 * time.Minute)
				if got := len(n.seen("h:80")); got != asked {
					t.Errorf("%d probes of what is not to be checked", got-asked)
				}
				f.watch(func(s *HealthSettings) { s.Enabled = true })
				f.set(i)
				pass(time.Second)
				if got := len(n.seen("h:80")); got == asked {
					t.Error("not probed at once when it was switched on again")
				}
			})
		})
	}
}

func TestAProbeOfARemovedInstanceEndsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		f.watch(func(s *HealthSettings) { s.Timeout = schema.Duration(time.Hour) })
		n.set("h:80", sayNothing)
		i := f.add("m", "http://h")
		pass(time.Minute)
		f.set()
		pass(time.Second)
		if n.open != 0 {
			t.Errorf("%d connections of removed instances", n.open)
		}
		if f.status(i) != StatusUnknown {
			t.Errorf("ending the probe counted: %+v", f.of(i).Snapshot())
		}
	})
}

func TestSilentBackendsDoNotDelayOtherProbes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		const all, silent = 200, 50
		var list []*Instance
		for k := range all {
			addr := fmt.Sprintf("h%d:80", k)
			n.set(addr, sayOK)
			if k%(all/silent) == 0 {
				n.set(addr, sayNothing)
			}
			list = append(list, makeInstance(t, "vllm", "m", "http://"+addr, nil, nil))
		}
		f.set(list...)
		pass(time.Minute) // one round in which nobody knows yet who is silent
		settled := time.Now()
		pass(3 * time.Minute)
		if n.peak > maxProbes || n.peak < maxSlow {
			t.Errorf("%d probes at a time", n.peak)
		}
		for k, i := range list {
			want, longest := StatusHealthy, 33*time.Second
			if k%(all/silent) == 0 {
				want, longest = StatusUnhealthy, time.Minute
			}
			if f.status(i) != want {
				t.Errorf("%s is %v", i.ID, f.status(i))
			}
			last := time.Time{}
			for _, probe := range n.seen(fmt.Sprintf("h%d:80", k)) {
				if gap := probe.at.Sub(last); last.After(settled) && gap > longest {
					t.Errorf("%s was not looked at for %v", i.ID, gap)
				}
				last = probe.at
			}
		}
	})
}

func TestAProbeEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		f.watch(func(s *HealthSettings) { s.UnhealthyThreshold = 1 })
		n.set("h:80", sayNothing)
		i := f.add("m", "http://h")
		pass(6 * time.Second)
		if got := f.of(i).Snapshot(); got.Status != StatusUnhealthy || got.Cause != "response_timeout" || got.ResponseTime != 5*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestInstancesMayWaitForDifferentTimes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.answer("h:80", func(*http.Request) string {
			time.Sleep(2 * time.Second) //nolint:forbidigo // the time of a synctest bubble
			return sayOK
		})
		patient := makeInstance(t, "vllm", "patient", "http://h", nil, nil)
		hasty := makeInstance(t, "vllm", "hasty", "http://h", nil, nil)
		s := DefaultHealthSettings()
		s.Timeout = schema.Duration(time.Second)
		f.watch(func(*HealthSettings) { f.own = map[string]HealthSettings{"hasty": s} })
		f.set(patient, hasty)
		pass(2 * time.Minute)
		if f.status(patient) != StatusHealthy || f.of(hasty).Reason().String() != "unhealthy: no answer in time" {
			t.Errorf("patient %v, hasty %q", f.status(patient), f.of(hasty).Reason())
		}
	})
}

func TestChecksLeaveLiveCountersAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		i := f.add("m", "http://h")
		permit, ok := i.Acquire(time.Now())
		if !ok {
			t.Fatal("not acquired")
		}
		pass(time.Minute)
		n.set("h:80", sayOK)
		pass(time.Minute)
		if f.status(i) != StatusHealthy || i.InFlight() != 1 || i.Ended(breaker.Failure) != 0 || i.Ended(breaker.Success) != 0 {
			t.Errorf("%v, %d in flight", f.status(i), i.InFlight())
		}
		i.Release(permit, breaker.Success, time.Now())
	})
}

// A fault of ours while a backend is asked says nothing about it, and the next check is made.
func TestAPanicOfACheckIsNoFindingAndOthersFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, n := newWatched(t), newNetwork()
		var isFaulty atomic.Bool
		isFaulty.Store(true)
		client := transport.New(transport.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if isFaulty.Load() {
				panic("a fault of ours")
			}
			return n.dial(ctx, network, address)
		}})
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			NewChecker(f.options(client)).Run(ctx)
			close(ended)
		}()
		pass(2 * time.Minute)
		if said := f.logged(); strings.Count(said, "a health check panicked") < 3 || !strings.Contains(said, "a fault of ours") || f.status(i) == StatusUnhealthy {
			t.Errorf("%v, %.400s", f.status(i), said)
		}
		isFaulty.Store(false)
		pass(time.Minute)
		if f.status(i) != StatusHealthy {
			t.Errorf("%v after a check without a fault", f.status(i))
		}
		stop()
		<-ended
		client.Close()
	})
}
