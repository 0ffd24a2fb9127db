package fleet

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

func second(n float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(n * float64(time.Second)))
}

// pair returns two gateways that have the same instances in another order.
func pair(instances int) (f, g *Fleet, of, and []*Instance) {
	f, g = New(Options{Secret: Secret{1}, Gateway: "f"}, second(0)), New(Options{Secret: Secret{1}, Gateway: "g"}, second(0))
	for n := range instances {
		of = append(of, f.Instance(strconv.Itoa(n), "m"))
	}
	for n := range instances {
		and = append(and, g.Instance(strconv.Itoa(instances-1-n), "m"))
	}
	return f, g, of, and
}

func promptOf(texts ...[]byte) *Prompt {
	p := NewPrompt(&Secret{1})
	for _, text := range texts {
		p.Text(text)
	}
	return p
}

// TestGatewaysTellWhatTheySent lets one gateway know what another one sent where, and what
// waits there.
func TestGatewaysTellWhatTheySent(t *testing.T) {
	f, g, of, and := pair(4)
	base := textOf(20_000, 1)
	var asks []*Ask
	var calls []*Call
	for n := range 12 {
		asks = append(asks, &Ask{Prompt: promptOf(base, textOf(10_000, uint64(n+2))), Tokens: 7500})
		calls = append(calls, f.Choose(of, asks[n], second(1)))
	}
	message := f.Export(second(2))
	if len(message) > 12*6*blocksPerStep*blockBytes {
		t.Errorf("%d bytes for 12 prompts with two thirds in common", len(message))
	}
	if err := g.Import("f", message, second(2)); err != nil {
		t.Fatal(err)
	}
	for n, ask := range asks {
		for _, e := range g.Explain(and, ask, second(2)) {
			isHome := e.Instance.host.name == calls[n].Instance.host.name
			if isHome != (e.Matched > 0.9) {
				t.Errorf("prompt %d on %s: %.2f is believed to be cached, was it sent there: %t", n, e.Instance.host.name, e.Matched, isHome)
			}
		}
	}
	for _, p := range g.Pictures(second(2)) {
		for _, q := range f.Pictures(second(2)) {
			if p.Host == q.Host && (p.Others != q.Waiting || p.Queue > 2*q.Queue || p.Queue < 0.5*q.Queue) {
				t.Errorf("%s: %d calls and %.2f s wait, the other gateway was told of %d and %.2f s", p.Host, q.Waiting, q.Queue, p.Others, p.Queue)
			}
		}
	}
	for _, call := range calls {
		call.First(second(3))
	}
	if err := g.Import("f", f.Export(second(3)), second(3)); err != nil {
		t.Fatal(err)
	}
	for _, p := range g.Pictures(second(3)) {
		if p.Others != 0 || p.Queue != 0 {
			t.Errorf("%+v after the other gateway has nothing to wait for", p)
		}
	}
}

// TestNothingNewIsNotTold lets a gateway tell what it has sent, that it waits, and that it
// does not wait any more, each once or for as long as it is so.
func TestNothingNewIsNotTold(t *testing.T) {
	f, _, of, _ := pair(2)
	isTold := func(at float64, want bool, when string) {
		t.Helper()
		if message := f.Export(second(at)); (message != nil) != want {
			t.Errorf("%s: a message of %d bytes", when, len(message))
		}
	}
	isTold(1, false, "before the first call")
	call := f.Choose(of, &Ask{Prompt: promptOf(textOf(3000, 1)), Tokens: 700}, second(1))
	isTold(2, true, "a call has begun")
	isTold(3, true, "it waits")
	call.First(second(3))
	isTold(4, true, "it waits no more")
	isTold(5, false, "it is being answered")
	call.End(Answer{}, second(5))
	isTold(6, false, "it has ended")
	f.Choose(of, &Ask{Prompt: promptOf(textOf(3000, 2)), Tokens: 700}, second(6)).Abort(second(6))
	isTold(7, true, "a call came and went")
	isTold(8, false, "a second later")
}

// TestAloneForgetsWhatOthersHavePending and not what they have sent.
func TestAloneForgetsWhatOthersHavePending(t *testing.T) {
	f, g, of, and := pair(1)
	ask := &Ask{Prompt: promptOf(textOf(20_000, 1)), Tokens: 5000}
	f.Choose(of, ask, second(1))
	if err := g.Import("f", f.Export(second(2)), second(2)); err != nil {
		t.Fatal(err)
	}
	g.Alone()
	if p := g.Pictures(second(2))[0]; p.Others != 0 || p.Queue != 0 {
		t.Errorf("%+v", p)
	}
	if e := g.Explain(and, ask, second(2))[0]; e.Matched < 0.9 {
		t.Errorf("%.2f is believed to be cached", e.Matched)
	}
}

// TestSilentGatewaysAreForgotten lets a gateway die that had calls waiting.
func TestSilentGatewaysAreForgotten(t *testing.T) {
	f, g, of, _ := pair(1)
	f.Choose(of, &Ask{Prompt: promptOf(), Tokens: 1e6}, second(1))
	if err := g.Import("f", f.Export(second(2)), second(2)); err != nil {
		t.Fatal(err)
	}
	g.Export(second(3))
	if p := g.Pictures(second(3))[0]; p.Others != 1 || p.Queue == 0 {
		t.Errorf("%+v a second after the other gateway told", p)
	}
	g.Export(second(8))
	if p := g.Pictures(second(8))[0]; p.Others != 0 || p.Queue != 0 {
		t.Errorf("%+v six seconds after the other gateway told", p)
	}
}

// TestGatewaysTellAtMost16KBASecond sends far more than fits, and looks at what was left out.
func TestGatewaysTellAtMost16KBASecond(t *testing.T) {
	f, g, of, and := pair(3)
	var last *Ask
	sent, told := int64(0), 0
	for tick := range 6 {
		for range 250 {
			last = &Ask{Prompt: promptOf(textOf(20_000, rand.Uint64())), Tokens: 5000}
			f.Choose(of, last, second(float64(tick))).Abort(second(float64(tick)))
			sent++
		}
		message := f.Export(second(float64(tick) + 1))
		if told += len(message); told > (tick+1)*MaxMessage {
			t.Fatalf("%d bytes in %d s", told, tick+1)
		}
		if err := g.Import("f", message, second(float64(tick)+1)); err != nil {
			t.Fatal(err)
		}
	}
	if f.Dropped() < sent/2 || f.Dropped() >= sent {
		t.Errorf("%d of %d prompts were left out, by the count", f.Dropped(), sent)
	}
	if g.Explain(and, last, second(6))[0].Matched < 0.9 {
		t.Error("the newest prompt was left out")
	}
	if first := f.Export(second(6.001)); len(first) > MaxMessage/100 {
		t.Errorf("%d bytes a millisecond later", len(first))
	}
}

// TestMalformedMessagesAreRefused cuts and changes a message at every place.
func TestMalformedMessagesAreRefused(t *testing.T) {
	f, g, of, _ := pair(2)
	f.Choose(of, &Ask{Prompt: promptOf(textOf(3000, 1)), Tokens: 700}, second(1))
	message := f.Export(second(2))
	for n := range message {
		_ = g.Import("f", message[:n], second(2))
		changed := append([]byte{}, message...)
		changed[n] ^= 0xff
		_ = g.Import("f", changed, second(2))
	}
	repeated := binary.AppendUvarint([]byte{version}, 1)
	repeated = binary.BigEndian.AppendUint64(repeated, of[0].id)
	repeated = append(repeated, 0, 0)
	repeated = appendPrompt(repeated, 0, make([]Block, 200), nil)
	for range 5000 {
		repeated = append(repeated, 0, 200, 1, 0) // 200 of the prompt before
	}
	deep := binary.AppendUvarint([]byte{version}, 1)
	deep = binary.BigEndian.AppendUint64(deep, of[0].id)
	deep = appendPrompt(append(deep, 0, 0), 0, make([]Block, maxDepth+1), nil)
	for name, wrong := range map[string][]byte{"empty": {}, "too deep": deep, "another version": {version + 1}, "too long": repeated, "no instance": {version, 0, 0, 0, 0}, "ends early": message[:len(message)-1]} {
		if err := g.Import("f", wrong, second(2)); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzImport looks for messages that break the index.
func FuzzImport(f *testing.F) {
	a, _, of, _ := pair(3)
	for n := range 5 {
		a.Choose(of, &Ask{Prompt: promptOf(textOf(5000, 1), textOf(5000, uint64(n))), Tokens: 700}, second(1))
	}
	f.Add(a.Export(second(2)))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, b, _, and := pair(3)
		_ = b.Import("f", message, second(1))
		and[0].model.index.check(t)
		if call := b.Choose(and, &Ask{Prompt: promptOf(textOf(5000, 1)), Tokens: 1}, second(2)); !(call.Estimate.Cost >= 0) {
			t.Errorf("%+v", call.Estimate)
		}
	})
}
