package redistally

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// TestScriptDoesWhatTheModelDoes lets three gateways exchange at random with Redis and
// with the model, whose clocks the test moves, and compares all answers: so what is
// proved with the model holds for the script.
func TestScriptDoesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	for seed := range uint64(40) {
		d := newDuel(t, redis, seed)
		for range 60 {
			d.step()
		}
		d.close()
	}
}

// duel is a random history of exchanges with both stores.
type duel struct {
	t      *testing.T
	redis  *storetest.Server
	random *rand.Rand
	seed   uint64
	now    time.Time
	model  *tallytest.Model
	stores []*Store
	plain  []*tallytest.Member
	// asks are the last of each gateway, and epochs the model's names for those of Redis.
	asks   [3]tally.Ask
	mine   [3]tally.Ask // the same for Redis, whose epochs have other names
	window time.Duration
	warmUp time.Duration
}

func newDuel(t *testing.T, redis *storetest.Server, seed uint64) *duel {
	d := &duel{t: t, redis: redis, random: rand.New(rand.NewPCG(seed, 1)), seed: seed, now: time.UnixMicro(1_800_000_000_000_000), model: tallytest.New()}
	d.model.Now = func() time.Time { return d.now }
	switch seed % 3 {
	case 1:
		d.window = 2 * time.Second
	case 2:
		d.warmUp = 5 * time.Second
	}
	for n := range 3 {
		id := fmt.Sprint("g", n)
		s, err := Open(t.Context(), redis.URL, fmt.Sprint("seed", seed), id)
		if err != nil {
			t.Fatal(err)
		}
		s.clock = func() string { return strconv.FormatInt(d.now.UnixMicro(), 10) }
		d.stores, d.plain = append(d.stores, s), append(d.plain, d.model.Member(id))
	}
	return d
}

func (d *duel) close() {
	for _, s := range d.stores {
		s.Close()
	}
}

// step is one exchange of one gateway, or a fault.
func (d *duel) step() {
	d.t.Helper()
	pauses := []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 2 * time.Second, 40 * time.Second}
	d.now = d.now.Add(pauses[min(d.random.IntN(len(pauses)), d.random.IntN(len(pauses)))] + time.Duration(d.random.IntN(1000))*time.Microsecond)
	if d.random.IntN(25) == 0 {
		storetest.FlushAll(d.t, d.redis)
		d.model.Flush()
	}
	n := d.random.IntN(3)
	members := 1 + d.random.IntN(3)
	a := d.asks[n]
	a.Name, a.Capacity, a.Rate, a.Window, a.WarmUp = "chat", 20, 10, d.window, d.warmUp
	a.Number++
	spent := int64(0)
	if a.Outstanding > 0 {
		spent = d.random.Int64N(a.Outstanding + 1)
	}
	a.Outstanding -= spent
	a.Spent, a.Own = spent, spent+d.random.Int64N(3)
	if d.random.IntN(6) == 0 {
		a.Spent = -d.random.Int64N(5)
	}
	a.Times = nil
	for left := a.Spent; left > 0 && d.random.IntN(4) > 0; {
		some := 1 + d.random.Int64N(left)
		left -= some
		a.Times = append(a.Times, tally.Time{Ago: time.Duration(d.random.IntN(3_000_000)) * time.Microsecond, Permits: some})
	}
	a.Returned = 0
	if a.Outstanding > 0 && d.random.IntN(3) == 0 {
		a.Returned = d.random.Int64N(a.Outstanding + 1)
		a.Outstanding -= a.Returned
	}
	a.Want = d.random.Int64N(8)
	a.Need = d.random.Int64N(a.Want + 1)
	if d.random.IntN(30) == 0 {
		a.Granted += 2 // Redis has gone back to an earlier state
	}
	theirs := a
	theirs.Epoch, theirs.Granted = d.mine[n].Epoch, a.Granted
	wantPresence, want, err1 := d.plain[n].Exchange(context.Background(), members, []tally.Ask{a})
	gotPresence, got, err2 := d.stores[n].Exchange(d.t.Context(), members, []tally.Ask{theirs})
	if err1 != nil || err2 != nil {
		d.t.Fatalf("seed %d: %v, %v", d.seed, err1, err2)
	}
	d.compare(n, a, want[0], got[0])
	if wantPresence.Members != gotPresence.Members || wantPresence.Silent != gotPresence.Silent {
		d.t.Fatalf("seed %d: presence %+v, the model says %+v", d.seed, gotPresence, wantPresence)
	}
	theirs.Epoch = got[0].Epoch
	d.mine[n] = theirs
	a.Epoch, a.Granted = want[0].Epoch, want[0].Granted
	a.Outstanding += want[0].Permits
	d.asks[n] = a
}

func (d *duel) compare(n int, a tally.Ask, want, got tally.Grant) {
	d.t.Helper()
	const close = 1e-4
	if got.Permits != want.Permits || got.Granted != want.Granted || math.Abs(got.Left-want.Left) > close || math.Abs(got.Capacity-want.Capacity) > close ||
		math.Abs(got.Rate-want.Rate) > close || (got.Retry-want.Retry).Abs() > 100*time.Microsecond || (d.mine[n].Epoch == got.Epoch) != (a.Epoch == want.Epoch) {
		d.t.Fatalf("seed %d, gateway %d, at %v: %+v\n  Redis %+v\n  model %+v", d.seed, n, d.now.UnixMicro(), a, got, want)
	}
}
