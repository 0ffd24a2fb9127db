package fleet

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestGatewaysUnderstandEachOtherWithTheSameSecret and not with different ones.
func TestGatewaysUnderstandEachOtherWithTheSameSecret(t *testing.T) {
	f, g, of, and := pair(3)
	shared := Secret{7}
	exchange := func(at float64, seed uint64) float64 {
		t.Helper()
		ask := func(fleet *Fleet) *Ask {
			p := fleet.Borrow("")
			p.Text(textOf(20_000, seed))
			return &Ask{Prompt: p, Tokens: 5000}
		}
		f.Choose(of, ask(f), second(at)).Abort(second(at))
		if err := g.Import("f", f.Export(second(at+1)), second(at+1)); err != nil {
			t.Fatal(err)
		}
		return g.Explain(and, ask(g), second(at+1))[0].Matched
	}
	if share := exchange(1, 1); share < 0.9 {
		t.Errorf("%.2f is known with the secret that both began with", share)
	}
	f.SetSecret(shared)
	if share := exchange(3, 2); share != 0 {
		t.Errorf("%.2f is known with different secrets", share)
	}
	g.SetSecret(shared)
	if share := exchange(5, 3); share < 0.9 {
		t.Errorf("%.2f is known with the same secret again", share)
	}
}

// TestAnotherSecretForgetsPromptsAndNothingElse also forgets what was to be told, and what
// others have pending, but not the own queue.
func TestAnotherSecretForgetsPromptsAndNothingElse(t *testing.T) {
	f, g, of, and := pair(1)
	text := textOf(20_000, 1)
	f.Choose(of, &Ask{Prompt: promptOf(text), Tokens: 5000}, second(1))
	if err := g.Import("f", f.Export(second(2)), second(2)); err != nil {
		t.Fatal(err)
	}
	call := g.Choose(and, &Ask{Prompt: promptOf(text), Tokens: 5000}, second(2))
	g.SetSecret(Secret{1}) // the same
	if p := g.Pictures(second(2))[0]; p.Others != 1 || p.Waiting != 1 || p.Cached == 0 {
		t.Errorf("%+v with the secret that it has", p)
	}
	g.SetSecret(Secret{2})
	if p := g.Pictures(second(2))[0]; p.Others != 0 || p.Waiting != 1 || p.Cached != 0 {
		t.Errorf("%+v with another secret", p)
	}
	if _, prompts, err := parse(g.Export(second(3))); err != nil || len(prompts) != 0 || g.Dropped() != 1 {
		t.Errorf("%d prompts are told, %d were dropped: %v", len(prompts), g.Dropped(), err)
	}
	call.First(second(3))
	call.End(Answer{PromptTokens: 5000, CachedTokens: 4000, OutputTokens: 1}, second(4))
	and[0].model.index.check(t)
}

// TestPromptThatWasBorrowedBeforeLeavesNothing behind when another secret has come meanwhile.
func TestPromptThatWasBorrowedBeforeLeavesNothing(t *testing.T) {
	f, _, of, _ := pair(2)
	before := f.Borrow("")
	before.Text(textOf(3000, 1))
	before.Hint("conversation")
	f.SetSecret(Secret{2})
	f.Choose(of, &Ask{Prompt: before, Tokens: 700}, second(1)).Abort(second(1))
	f.Return(before)
	if f.Export(second(2)) != nil || f.Pictures(second(2))[0].Cached+f.Pictures(second(2))[1].Cached != 0 {
		t.Error("a prompt was kept that was read with another secret")
	}
	for range 100 { // the pool gives prompts back in any order, and not always
		p := f.Borrow("")
		if p.Text(textOf(3000, 1)); *p.secret != (Secret{2}) {
			t.Fatal("a prompt has the secret of before")
		}
		f.Return(p)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	secret := Secret{0xab, 0xcd}
	options := Options{Secret: secret, Gateway: "g"}
	var log strings.Builder
	// The digits of a time may be those of the secret.
	timeless := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	slog.New(slog.NewJSONHandler(&log, timeless)).Info("m", "a", secret, "b", &secret, "c", options)
	slog.New(slog.NewTextHandler(&log, timeless)).Info("m", "a", secret, "b", &secret, "c", options)
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		fmt.Sprint(secret), fmt.Sprintf("%v %+v %#v %x %d %s", secret, options, secret, secret, secret, &secret), log.String(), string(text),
	} {
		if !strings.Contains(shown, hidden) || strings.Contains(strings.ToLower(shown), "abcd") || strings.Contains(shown, "171") {
			t.Errorf("%s", shown)
		}
	}
}
