package batches

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// TestNoLineIsLostOrCalledAgainAfterItsAnswerWasSynced runs random histories: a process is
// killed before, in or after a write or a sync of its journal, at any moment, and another one
// goes on in the same folder. The model is the set of lines whose answers were synced: none of
// them may run again, and in the end each line has one answer.
func TestNoLineIsLostOrCalledAgainAfterItsAnswerWasSynced(t *testing.T) {
	const histories = 12
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runHistory(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func runHistory(t *testing.T, random *rand.Rand) {
	h := newHouse(t)
	if random.IntN(2) == 0 {
		h.keys, _ = seal.New("0123456789abcdef0123456789abcdef", "")
	}
	lines := 20 + random.IntN(60)
	m := &model{synced: map[string]bool{}, calls: map[string]int{}}
	first := h.open(m.process())
	id := h.submit(first, linesOf(lines)).ID
	first.end()
	kills := 3 + random.IntN(10)
	for range kills {
		p := m.process()
		e := h.open(p)
		dies := random.IntN(40) // after so many steps of the journal
		var mu sync.Mutex
		steps := 0
		ctx, kill := context.WithCancel(context.Background())
		e.before = func(durable.Step) error {
			mu.Lock()
			defer mu.Unlock()
			if steps++; steps > dies {
				p.die()
				kill()
				return errKilled
			}
			return nil
		}
		lives := time.Duration(1+random.IntN(30)) * 700 * time.Millisecond
		timer := time.AfterFunc(lives, func() {
			p.die()
			kill()
		})
		e.Run(ctx)
		timer.Stop()
		kill()
		m.look(t, h, id)
	}
	last := h.open(m.process())
	defer start(last)()
	p := h.await(last, id)
	if p.State != Completed || p.Counts.Done != lines {
		t.Errorf("after %d kills the batch of %d lines ended as %s with %+v", kills, lines, p.State, p.Counts)
	}
	var want []string
	for i := range lines {
		want = append(want, fmt.Sprintf("line-%d", i))
	}
	expectIDs(t, h.results(last, p.Output), want...)
}

// model is what is known of the lines, whatever processes did.
type model struct {
	mu     sync.Mutex
	synced map[string]bool // their answers were in a journal when a process had ended
	calls  map[string]int
	again  []string // were called after that
}

// look reads the journals as they are after a process has ended.
func (m *model) look(t *testing.T, h *house, id string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.again) > 0 {
		t.Errorf("lines ran again whose answers were synced: %v", m.again)
	}
	journals, err := scan(h.folder+"/answers/"+id, id, h.keys, func(r *record, _ place) { m.synced[r.CustomID] = true }, nil)
	h.check(err)
	journals.close()
}

// process returns the runner of one process.
func (m *model) process() *mortal { return &mortal{model: m, dead: make(chan struct{})} }

// mortal is a runner that does nothing any more once its process is killed.
type mortal struct {
	*model
	dead chan struct{}
	once sync.Once
}

func (p *mortal) die() { p.once.Do(func() { close(p.dead) }) }

func (*mortal) Presence(string, string) Presence { return Served }

func (*mortal) Room(string, string) int { return 3 }

func (*mortal) RoomInAll() int { return math.MaxInt }

func (*mortal) AwaitRoom(ctx context.Context, _, _ string, _ func() int) { <-ctx.Done() }

func (*mortal) Stands(files.Owner) bool { return true }

func (p *mortal) Run(ctx context.Context, call Call) Answer {
	p.mu.Lock()
	p.calls[call.CustomID]++
	if p.synced[call.CustomID] {
		p.again = append(p.again, call.CustomID)
	}
	p.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return answered(call)
	case <-p.dead:
	case <-ctx.Done():
	}
	return Answer{}
}
