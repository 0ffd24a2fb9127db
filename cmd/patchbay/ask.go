package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// questions asks a person on a terminal. Elsewhere every question is answered by its
// default.
type questions struct {
	in  *bufio.Reader // nil: take the defaults
	out io.Writer
}

// newQuestions returns questions to the person at a terminal, unless yes says that
// everything is wanted as it is.
func newQuestions(in io.Reader, out io.Writer, yes bool) *questions {
	f, isFile := in.(interface{ Fd() uintptr })
	if yes || !isFile || !term.IsTerminal(int(f.Fd())) {
		return &questions{out: out}
	}
	return &questions{bufio.NewReader(in), out}
}

// text asks for a line.
func (q *questions) text(question, byDefault string) string {
	if q.in == nil {
		return byDefault
	}
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	fmt.Fprint(q.out, question+" ")
	line, err := q.in.ReadString('\n')
	if line = strings.TrimSpace(line); line == "" || err != nil {
		return byDefault
	}
	return line
}

// yes asks a question that has two answers.
func (q *questions) yes(question string, byDefault bool) bool {
	if q.in == nil {
		return byDefault
	}
	choice := "[Y/n]"
	if !byDefault {
		choice = "[y/N]"
	}
	switch strings.ToLower(q.text(question+" "+choice, "")) {
	case "y", "yes":
		return true
	case "n", "no":
		return false
	}
	return byDefault
}
