package reply

import (
	"regexp"
	"strconv"
	"strings"
)

// figures finds whole numbers of at least three digits, with commas or without. Smaller ones are no
// lengths of prompts that are too long, and parts of names are none at all.
var figures = regexp.MustCompile(`(?:^|[^\w.-])([0-9][0-9,]{2,11})\b`)

// lengths returns the number of tokens of a request that is too long, and the window of the model, as
// the message of a backend has them; 0 for those that it has not. Whichever order a backend writes them in, the
// window is the smaller one. Anthropic's API writes a sum > the window.
func lengths(words string) (tokens, window int64) {
	var all []int64
	words = words[:min(len(words), maxErrorBody)]
	for _, figure := range figures.FindAllStringSubmatch(words, 3) {
		if n, err := strconv.ParseInt(strings.ReplaceAll(figure[1], ",", ""), 10, 64); err == nil {
			all = append(all, n)
		}
	}
	switch {
	case len(all) == 3 && strings.Contains(words, " + ") && strings.Contains(words, " > "):
		return all[0] + all[1], all[2]
	case len(all) >= 2:
		return max(all[0], all[1]), min(all[0], all[1])
	case len(all) == 1:
		return 0, all[0]
	}
	return 0, 0
}
