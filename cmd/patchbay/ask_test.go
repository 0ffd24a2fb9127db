package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// askingPerson answers questions with these lines.
func askingPerson(lines string) *questions {
	return &questions{bufio.NewReader(strings.NewReader(lines)), io.Discard}
}

func TestAnswers(t *testing.T) {
	for line, want := range map[string]bool{"\n": true, "y\n": true, "Yes\n": true, "n\n": false, "NO\n": false, "": true, "what\n": true} {
		if got := askingPerson(line).yes("Go on?", true); got != want {
			t.Errorf("%q is %t", line, got)
		}
	}
	if got := askingPerson("  x \n").text("Name", "d"); got != "x" {
		t.Errorf("%q", got)
	}
	if nobody := newQuestions(strings.NewReader("n\n"), io.Discard, false); !nobody.yes("Go on?", true) || nobody.text("Name", "d") != "d" {
		t.Error("a file was asked")
	}
}
