package account

import "testing"

func TestAnAnswerIsLikelyTwiceAsLongAsTheLongestOfTheLatest(t *testing.T) {
	t.Parallel()
	many := func(tokens int64, times int) (all []int64) {
		for range times {
			all = append(all, tokens)
		}
		return all
	}
	for name, test := range map[string]struct {
		answers []int64
		want    int64
	}{
		"none":                     {nil, 0},
		"short":                    {[]int64{3}, 1024},
		"empty":                    {[]int64{0}, 1024},
		"one":                      {[]int64{2000}, 4000},
		"the longest":              {[]int64{700, 2000, 800}, 4000},
		"the longest is the 32nd":  {append([]int64{2000}, many(700, 31)...), 4000},
		"the longest is forgotten": {append([]int64{2000}, many(700, 32)...), 1400},
	} {
		var known Answers
		for _, tokens := range test.answers {
			known.Add(tokens)
		}
		if got := known.likely(); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

// The answers of a run are asked first, then those of its key and model, of which some are
// forgotten if there are too many.
func TestWhoseAnswersSayHowLongOneIs(t *testing.T) {
	t.Parallel()
	d := new(Desk)
	for n := range mostAnswerers + 10 {
		d.answers(string(rune(n)), "m", true).Add(1)
	}
	if got := len(d.answerers.of); got != mostAnswerers {
		t.Errorf("got %d pairs of keys and models, want %d", got, mostAnswerers)
	}
}
