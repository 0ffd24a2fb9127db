package control

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// said returns the changes of a version as codes and values, nil where they are not
// known.
//
// Versions are stored with a summary in words, because the last release refuses members
// that it does not know, and with their changes beside it. A version without changes is
// compared with the versions that may have been in force before it. The differences that
// give the stored summary are its changes.
func (c *Control) said(v *Version) []say.Sentence {
	if v.Summary == firstSummary() {
		return []say.Sentence{say.New("version.first")}
	}
	if said := differences.SaidAs(v.Summary, changesOf(v)); said != nil {
		return said
	}
	for _, number := range c.before(v.Number) {
		earlier, err := c.Load(number)
		if err != nil {
			continue
		}
		if said := differences.SaidAs(v.Summary, c.CompareVersions(earlier, v)); said != nil {
			return said
		}
	}
	return nil
}

// changesOf returns the differences that are stored beside a version, none where they cannot
// be read.
func changesOf(v *Version) []Difference {
	var kept []Difference
	if err := json.Unmarshal(v.Changes, &kept); err != nil {
		return nil
	}
	return kept
}

// before returns the versions that may have been in force before another one, the likeliest
// first.
func (c *Control) before(number int) []int {
	const most = 4
	var found []int
	add := func(other int) {
		if other > 0 && other != number && !slices.Contains(found, other) {
			found = append(found, other)
		}
	}
	last := 0
	for _, made := range c.Activations() {
		if made.Version == number {
			add(last)
			break
		}
		last = made.Version
	}
	numbers, err := c.Versions()
	if err != nil {
		return found
	}
	for _, other := range slices.Backward(numbers) {
		if other < number && len(found) < most {
			add(other)
		}
	}
	return found
}

// firstSummary returns the summary of the first version.
func firstSummary() string { return say.Text("version.first") }
