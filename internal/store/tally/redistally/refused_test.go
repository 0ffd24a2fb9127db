package redistally_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// allowedSoon waits until a gateway lets in some requests in a row.
func allowedSoon(t *testing.T, g *gateway, requests int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; n < requests; {
		d, _ := g.lease.Take(1, time.Now())
		if n++; !d.Allowed {
			n = 0
			wait(500 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			t.Fatalf("requests are refused: %+v", d)
		}
	}
}

// A Redis that answers and takes no writes is away: each gateway takes its share of a limit,
// as if Redis did not answer, and the limit is exact again when Redis takes writes.
func TestARedisThatRefusesWritesIsAway(t *testing.T) {
	t.Parallel()
	for name, refuse := range storetest.RefuseWrites() {
		for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.SlidingWindow} {
			t.Run(name+" "+algorithm.String(), func(t *testing.T) {
				t.Parallel()
				const capacity, rate = 600, 300
				redis := storetest.Redis(t)
				var all []*gateway
				for n := range 2 {
					all = append(all, start(t, redis.URL, fmt.Sprint("g", n), time.Second, limit(algorithm, capacity, rate)))
				}
				exactSoon(t, all)
				taken := newTakes()
				end := refuse(t, redis)
				divided(t, all)
				for _, g := range all {
					allowedSoon(t, g, 50)
				}
				// A busy machine asks less often than the limit allows.
				taken.during(func() { taken.reach(rate, 10*time.Second) }, all...)
				if len(taken.all) < rate {
					t.Errorf("%d requests were let in while Redis refused writes", len(taken.all))
				}
				end()
				exactSoon(t, all)
				taken.during(func() { wait(time.Second) }, all...)
				if n := taken.excess(capacity, rate); n > 0 {
					t.Errorf("%.1f too many of %d", n, len(taken.all))
				}
			})
		}
	}
}

// A key of a wrong type, or with content of others, costs what it had and no more: other
// limits, the number of gateways and totals continue.
func TestAKeyOfAWrongTypeIsReplaced(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"SET test:{tally}:limit:chat x", "SET test:{tally}:mark x", "SET test:{tally}:members x",
		"DEL test:{tally}:changes; HSET test:{tally}:changes a b", "SET test:{tally}:changes x", "SET test:{tally}:changes 9223372036854775807", "SET sheet x",
		"HSET test:{tally}:limit:chat marks 1:nan,99999999999999999999:1 level nan born nan at nan shared inf m:g0 x",
		"HSET test:{tally}:limit:chat m:g0 \"9007199254740990 0 0 9007199254740990\"",
		"HSET test:{tally}:members g9 nan g8 inf",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			g := start(t, redis.URL, "g0", patient, limit(ratelimit.TokenBucket, 1000, 1000))
			g.pool.Meet(t.Context())
			allowedSoon(t, g, 5)
			for _, one := range strings.Split(command, "; ") {
				storetest.RedisCommand(t, redis, one)
			}
			sheets := []tally.Sheet{{Name: "sheet", Expire: time.Now().Add(time.Hour), IsRead: true, IsOrdered: true, Totals: []tally.Total{{Writer: "a", Numbers: "1 1"}}}}
			deadline := time.Now().Add(20 * time.Second)
			for n := 0; n < 3; n++ {
				err := g.pool.Err()
				told, tellErr := g.pool.Tell(t.Context(), sheets, true)
				if err != nil || tellErr != nil || told[0]["a"] == "" {
					n = 0
				}
				if time.Now().After(deadline) {
					t.Fatalf("exchange: %v, tell: %v %v", err, told, tellErr)
				}
				wait(50 * time.Millisecond)
			}
			allowedSoon(t, g, 20)
			exactSoon(t, []*gateway{g})
			if answer := storetest.RedisCommand(t, redis, "HGET sheet a"); answer != "$3\r\n1 1\r\n" {
				t.Errorf("%q", answer)
			}
		})
	}
}

// A sheet of a wrong type that is only read is empty.
func TestASheetOfAWrongTypeIsEmpty(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	storetest.RedisCommand(t, redis, "SET sheet x")
	pool := tally.NewPool(tally.Options{
		Open: func(ctx context.Context) (tally.Store, error) {
			return redistally.Open(ctx, redis.URL, "test", "a")
		},
		Timeout: patient, Log: slog.New(slog.DiscardHandler),
	})
	defer pool.Close()
	pool.Meet(t.Context())
	told, err := pool.Tell(t.Context(), []tally.Sheet{{Name: "sheet", IsRead: true}}, false)
	if err != nil || len(told) != 1 || len(told[0]) != 0 {
		t.Errorf("%v %v", told, err)
	}
}
