package custominput_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/custominput"
)

func TestInputOfCustomToolsIsFoundInWhateverComes(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"input":"a\nb"}`:               `a\nb`,
		` { "input" : "\ud83d\ude00" } `: `\ud83d\ude00`,
		`{"other":1,"input":"a"}`:        `a`,
		`"a"`:                            `a`,
		`*** Begin "x"`:                  `*** Begin \"x\"`,
		`{"input":"cut \u00`:             `cut `,
		``:                               ``,
	} {
		for size := 1; size <= len(arguments)+1; size++ {
			var c custominput.Input
			got := ""
			for rest := arguments; rest != ""; {
				n := min(size, len(rest))
				got += string(c.Add([]byte(rest[:n])))
				rest = rest[n:]
			}
			end := string(c.End())
			if end != want || got != "" && got != want {
				t.Errorf("%s in pieces of %d: %q, at the end %q, want %q", arguments, size, got, end, want)
			}
		}
	}
}
