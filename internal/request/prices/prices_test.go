package prices

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

func TestAmountsAreExactDecimals(t *testing.T) {
	for text, want := range map[string]Amount{
		"0": 0, "2.5": 2_500_000_000_000, "0.15": 150_000_000_000, "15e-8": 150_000, "1.5E-07": 150_000, "0.000000000001": 1, "9000000": 9e18, "007.10": 7_100_000_000_000,
	} {
		got, err := ParseAmount(text)
		if err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, wrong := range []string{"", ".", "-1", "1,5", "0.0000000000001", "10000000", "1e99999999", "1e", "0x10", "1/3", "1_000", "NaN", "1e+-3", strings.Repeat("9", 41)} {
		if got, err := ParseAmount(wrong); err == nil {
			t.Errorf("%q is %v", wrong, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := Amount(rapid.Int64Range(0, math.MaxInt64).Draw(t, "amount"))
		if back, err := ParseAmount(a.String()); err != nil || back != a {
			t.Fatalf("%d is written %s and read %d, %v", a, a, back, err)
		}
	})
	for a, want := range map[Amount]int64{0: 0, 499_999: 0, 500_000: 1, 1_499_999: 1, -1_500_000: -2, math.MaxInt64: 9_223_372_036_855} {
		if got := a.Micros(); got != want {
			t.Errorf("%d is %d millionths, want %d", a, got, want)
		}
	}
}

// Costs are those of exact arithmetic, each part rounded to the nearest.
func TestCostsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, 1e15)
		p := Price{
			Input: Amount(amount.Draw(t, "input")), CachedInput: Amount(rapid.SampledFrom([]int64{0, 1, 3e11}).Draw(t, "cached")), CacheWrite: Amount(rapid.SampledFrom([]int64{0, 1, 4e11}).Draw(t, "write")), Output: Amount(amount.Draw(t, "output")),
			Image: Amount(amount.Draw(t, "image")), Minute: Amount(amount.Draw(t, "minute")), Characters: Amount(amount.Draw(t, "characters")),
		}
		number := rapid.Int64Range(0, 1e6)
		q := Quantity{
			Prompt: number.Draw(t, "prompt"), Cached: number.Draw(t, "cached tokens"), Written: number.Draw(t, "written tokens"), Completion: number.Draw(t, "completion"),
			Images: rapid.Int64Range(0, 10).Draw(t, "images"), Seconds: rapid.Int64Range(0, 7200).Draw(t, "seconds"), Characters: number.Draw(t, "chars"),
		}
		cached := min(q.Cached, q.Prompt)
		cachedPrice := p.CachedInput
		if cachedPrice == 0 {
			cachedPrice = p.Input
		}
		written, writePrice := min(q.Written, q.Prompt-cached), p.CacheWrite
		if writePrice == 0 {
			writePrice = p.Input
		}
		want := new(big.Int)
		for _, part := range []struct {
			price      Amount
			number, of int64
		}{
			{p.Input, q.Prompt - cached - written, 1e6}, {cachedPrice, cached, 1e6}, {writePrice, written, 1e6}, {p.Output, q.Completion, 1e6},
			{p.Image, q.Images, 1}, {p.Minute, q.Seconds, 60}, {p.Characters, q.Characters, 1000},
		} {
			product := new(big.Int).Mul(big.NewInt(int64(part.price)), big.NewInt(part.number))
			product.Add(product, big.NewInt(part.of/2))
			want.Add(want, product.Quo(product, big.NewInt(part.of)))
		}
		if got := p.Cost(q); want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("%+v for %+v costs %d, want %s", q, p, got, want)
		}
	})
	most := Price{Input: math.MaxInt64, Output: math.MaxInt64}
	if got := most.Cost(Quantity{Prompt: 1 << 40, Completion: 1 << 40}); got != math.MaxInt64 {
		t.Errorf("beyond all measure: %d", got)
	}
	if got := (*Price)(nil).Cost(Quantity{Prompt: 1}); got != 0 {
		t.Errorf("without a price: %d", got)
	}
}

func TestPricesAreFoundByName(t *testing.T) {
	list := Compile(Settings{Models: []Model{
		{"*", Price{Input: 1}}, {"gpt-*", Price{Input: 2}}, {"gpt-4*mini", Price{Input: 3}}, {"gpt-4o", Price{Input: 4}}, {"a*b*c", Price{Input: 5}},
	}})
	for name, want := range map[string]Amount{"x": 1, "gpt-5": 2, "gpt-4o-mini": 3, "gpt-4o": 4, "gpt-4": 2, "axbxc": 5, "acb": 1} {
		if got := list.Of(name); got == nil || got.Input != want {
			t.Errorf("%s: %+v, want %d", name, got, want)
		}
	}
	if Compile(Settings{}).Of("x") != nil || (*List)(nil).Of("x") != nil {
		t.Error("there is a price where there is none")
	}
}

func TestSettingsOfPrices(t *testing.T) {
	var got []string
	Settings{Currency: "U S", Models: []Model{{Model: "a"}, {}, {Model: "a"}}}.Check(func(path string, fault say.Sentence) { got = append(got, path+" "+fault.String()) })
	want := "currency want a short name such as USD; models[1].model is required; models[2].model is the same as in models[0]"
	if strings.Join(got, "; ") != want {
		t.Errorf("problems %q", got)
	}
	DefaultSettings().Check(func(path string, fault say.Sentence) { t.Errorf("%s %s", path, fault) })
}

func TestTheListOfLiteLLMIsImported(t *testing.T) {
	models, problems, err := Import([]byte(`{
		"sample_spec": {"input_cost_per_token": 0, "mode": "one of: chat, embedding"},
		"gpt-4o": {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1.25e-06, "mode": "chat", "max_tokens": 16384, "max_input_tokens": 128000, "max_output_tokens": "16384"},
		"claude": {"input_cost_per_token": 3e-06, "cache_creation_input_token_cost": 3.75e-06, "max_input_tokens": -5, "max_output_tokens": {}},
		"dall-e-3": {"output_cost_per_image": 0.04, "mode": "image_generation"},
		"old-image": {"input_cost_per_image": 0.02, "mode": "image_generation"},
		"whisper-1": {"input_cost_per_second": 0.0001, "output_cost_per_second": 0.0001, "mode": "audio_transcription"},
		"tts-1": {"input_cost_per_character": 1.5e-05, "mode": "audio_speech"},
		"computed": {"input_cost_per_token": 7.500000000000001e-08, "mode": "chat"},
		"free": {"input_cost_per_token": 0.0, "mode": "chat"},
		"it's": {"input_cost_per_token": 1e-6},
		"broken": {"input_cost_per_token": -1}, "huge": {"input_cost_per_token": 1e99999999}, "odd": 7
	}`))
	if err != nil || len(problems) != 3 {
		t.Fatalf("%v %q", err, problems)
	}
	want := `prices:
  currency: USD
  models:
    - {model: 'claude', input: 3, cache-write: 3.75}
    - {model: 'computed', input: 0.075}
    - {model: 'dall-e-3', image: 0.04}
    - {model: 'gpt-4o', input: 2.5, cached-input: 1.25, output: 10, max-input-tokens: 128000, max-output-tokens: 16384}
    - {model: 'it''s', input: 1}
    - {model: 'old-image', image: 0.02}
    - {model: 'tts-1', characters: 0.015}
    - {model: 'whisper-1', minute: 0.006}
`
	if got := YAML(Settings{"USD", models}); got != want {
		t.Errorf("%s", got)
	}
	if got := YAML(Settings{"USD", Select(models, []string{"gpt-*", "tts-1"})}); strings.Count(got, "model:") != 2 {
		t.Errorf("%s", got)
	}
	if _, _, err := Import([]byte(`[]`)); err == nil {
		t.Error("a list is imported")
	}
}
