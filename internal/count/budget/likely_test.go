package budget

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// crew is one run at gateways that share a store, whose requests may reserve their likely use.
type crew struct {
	clock *clock
	store *team
	books []*Book
	runs  []*Account
}

func newCrew(gateways int, limit int64, isLikely bool) *crew {
	c := &crew{clock: &clock{at: time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)}}
	c.store = newTeam(c.clock.now)
	data := &database{map[string]quota.Row{}}
	for n := range gateways {
		writer := fmt.Sprintf("w%d", n)
		options := Options{
			Ledger: &ledger{database: data, writer: writer}, FailOpen: true, Degrade: true, Timeout: time.Minute,
			Now: c.clock.now, manual: true, pause: noPause, Likely: isLikely,
			Runs: &Runs{Idle: 24 * time.Hour, GoesOn: func(*quota.Row) bool { return true }},
		}
		if gateways > 1 {
			options.Shared = c.store.member(writer)
		}
		book := New(options)
		c.books = append(c.books, book)
		c.runs = append(c.runs, book.OpenRun(runSubject, c.clock.now(), Amounts{0, limit, 0}))
	}
	c.exchange()
	return c
}

func (c *crew) exchange() {
	for range 2 { // the first one reads what the last one writes
		for _, book := range c.books {
			book.exchange(context.Background())
		}
	}
}

func (c *crew) reserve(gateway int, most, likely int64) (*Charge, *Refusal, error) {
	charge := &Charge{Run: c.runs[gateway]}
	refused, err := charge.Reserve(context.Background(), [2]*Account{}, Want{Amounts{1, most, 0}, Amounts{1, most, 0}, Amounts{1, likely, 0}}, c.clock.now())
	return charge, refused, err
}

// A run is exceeded by at most the part of one answer that was not reserved, whatever its requests
// reserve at however many gateways.
func TestLikelyReservationsExceedALimitByOneAnswer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type open struct {
			charge       *Charge
			most, likely int64
		}
		const limit = 1000
		c := newCrew(rapid.IntRange(1, 3).Draw(rt, "gateways"), limit, true)
		var running []open
		spent, beyond := int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch {
			case len(running) > 0 && rapid.Bool().Draw(rt, "settles"):
				n := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
				r := running[n]
				running = append(running[:n], running[n+1:]...)
				used := rapid.Int64Range(0, r.most).Draw(rt, "used")
				r.charge.Settle(schema.Usage{Total: used}, 0)
				spent += used
			case rapid.IntRange(0, 9).Draw(rt, "exchanges") == 0:
				c.exchange()
			default:
				most := rapid.Int64Range(1, 900).Draw(rt, "most")
				likely := rapid.Int64Range(1, most).Draw(rt, "likely")
				charge, refused, err := c.reserve(rapid.IntRange(0, len(c.runs)-1).Draw(rt, "gateway"), most, likely)
				if err != nil {
					rt.Fatal(err)
				}
				if refused == nil {
					running = append(running, open{charge, most, likely})
					beyond = max(beyond, most-likely)
				}
			}
			if spent > limit+beyond {
				rt.Fatalf("got %d spent of %d, want at most %d more", spent, limit, beyond)
			}
		}
	})
}

func TestARequestReservesItsLikelyUseIfTheMostHasNoRoom(t *testing.T) {
	t.Parallel()
	for _, gateways := range []int{1, 2} {
		t.Run(fmt.Sprint(gateways), func(t *testing.T) {
			t.Parallel()
			c := newCrew(gateways, 1000, true)
			last := gateways - 1
			reserved := func() (tokens int64) { // without what gateways commit ahead
				for _, run := range c.runs {
					tokens += run.spans[0].reserved[Tokens]
				}
				return tokens
			}
			first, refused, err := c.reserve(0, 600, 100)
			if refused != nil || err != nil || reserved() != 600 {
				t.Fatalf("first: got %v, %v and %d reserved, want 600", refused, err, reserved())
			}
			second, refused, err := c.reserve(last, 600, 100)
			if c.exchange(); refused != nil || err != nil || reserved() != 700 {
				t.Fatalf("second: got %v, %v and %d reserved, want 700", refused, err, reserved())
			}
			if _, refused, _ = c.reserve(0, 600, 100); refused == nil || !refused.Held || refused.Unit != Tokens || refused.Wanted != (Amounts{1, 100, 0}) {
				t.Fatalf("third: got %+v, want held for 100 tokens while another request has the permit", refused)
			}
			if third, refused, _ := c.reserve(0, 200, 100); refused != nil {
				t.Fatalf("a request whose most has room: got %+v", refused)
			} else {
				third.GiveBack()
			}
			second.Settle(schema.Usage{Total: 50}, 0)
			c.exchange()
			if third, refused, _ := c.reserve(0, 600, 100); refused != nil {
				t.Fatalf("after the second: got %+v", refused)
			} else {
				third.Settle(schema.Usage{Total: 600}, 0)
			}
			first.Settle(schema.Usage{Total: 400}, 0)
			c.exchange()
			if _, refused, _ = c.reserve(last, 600, 100); refused == nil || refused.Held || refused.Used != 1050 || refused.Wanted[Tokens] != 100 {
				t.Fatalf("at the end: got %+v, want a refusal for good with 1050 used", refused)
			}
		})
	}
}

// While the most is reserved in any case, nothing of this holds.
func TestTheMostIsReservedUnlessLikelyIsSet(t *testing.T) {
	t.Parallel()
	c := newCrew(1, 1000, false)
	if _, refused, _ := c.reserve(0, 1001, 100); refused == nil || refused.Held || refused.Wanted[Tokens] != 1001 {
		t.Errorf("got %+v, want a refusal for good of 1001 tokens", refused)
	}
}

// A further call of a request, which goes on with a broken answer, uses the permit of the first.
func TestFurtherCallsUseThePermitOfTheirRequest(t *testing.T) {
	t.Parallel()
	c := newCrew(1, 1000, true)
	charge, refused, _ := c.reserve(0, 2000, 300)
	if refused != nil {
		t.Fatalf("got %+v", refused)
	}
	further, refused, err := charge.More(Want{Amounts{0, 2000, 0}, Amounts{0, 2000, 0}, Amounts{0, 300, 0}})
	if refused != nil || err != nil {
		t.Fatalf("got %+v, %v", refused, err)
	}
	if _, refused, _ := c.reserve(0, 2000, 300); refused == nil || !refused.Held {
		t.Errorf("got %+v, want held", refused)
	}
	charge.Less(further)
	if _, reserved := c.runs[0].Figures(); reserved != (Amounts{1, 300, 0, 1}) {
		t.Errorf("got %v reserved, want 300 tokens and the permit", reserved)
	}
	charge.GiveBack()
	if _, reserved := c.runs[0].Figures(); reserved != (Amounts{}) {
		t.Errorf("got %v reserved after the end, want nothing", reserved)
	}
}
