package llamaswap

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// maxSets bounds the combinations that expressions may describe.
const maxSets = 4096

// errTooMany says that expressions describe more combinations than anybody can look through.
var errTooMany = fmt.Errorf("it describes more than %d combinations", maxSets)

// Set is an expression with a name: models that may run together (&), alternatives (|), and other
// expressions by their names (+).
type Set struct{ Name, Text string }

// Combinations returns the models that may run together by the sets. The function returns the
// model that a word of an expression means.
func Combinations(sets []Set, model func(word string) (string, bool)) ([][]string, error) {
	r := &expressions{sets: map[string]string{}, model: model}
	for _, set := range sets {
		r.sets[set.Name] = set.Text
	}
	var all [][]string
	for _, set := range sets {
		found, err := r.read(set.Name, set.Text)
		if err == nil && len(all)+len(found) > maxSets {
			err = errTooMany
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// expressions are sets that refer to each other.
type expressions struct {
	sets  map[string]string
	model func(string) (string, bool)
	open  []string // the names of the sets that are being read
}

// read returns the combinations of an expression.
func (r *expressions) read(name, text string) ([][]string, error) {
	for _, open := range r.open {
		if open == name {
			return nil, errors.New("it refers to itself")
		}
	}
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	e := &expression{r, words(text)}
	found, err := e.either()
	if err == nil && len(e.rest) > 0 {
		err = fmt.Errorf("%q is not expected there", e.rest[0])
	}
	return found, err
}

// words splits an expression into names and signs.
func words(text string) []string {
	var all []string
	isName := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.", r) }
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return !isName(r) })
		switch {
		case end < 0:
			end = len(text)
		case end == 0:
			end = len(string([]rune(text)[:1]))
		}
		if word := strings.TrimSpace(text[:end]); word != "" {
			all = append(all, word)
		}
		text = text[end:]
	}
	return all
}

// expression is the rest of an expression that is being read.
type expression struct {
	*expressions
	rest []string
}

// next takes a sign if it comes next.
func (e *expression) next(sign string) bool {
	if len(e.rest) == 0 || e.rest[0] != sign {
		return false
	}
	e.rest = e.rest[1:]
	return true
}

// either reads alternatives.
func (e *expression) either() ([][]string, error) {
	all, err := e.both()
	for err == nil && e.next("|") {
		var more [][]string
		more, err = e.both()
		all = append(all, more...)
	}
	return all, err
}

// both reads models that run together.
func (e *expression) both() ([][]string, error) {
	all, err := e.one()
	for err == nil && e.next("&") {
		var with [][]string
		if with, err = e.one(); err != nil {
			break
		}
		if len(all)*len(with) > maxSets {
			return nil, errTooMany
		}
		var joined [][]string
		for _, a := range all {
			for _, b := range with {
				joined = append(joined, append(append([]string(nil), a...), b...))
			}
		}
		all = joined
	}
	return all, err
}

// one reads a model, another set, or an expression in parentheses.
func (e *expression) one() ([][]string, error) {
	switch {
	case e.next("("):
		all, err := e.either()
		if err == nil && !e.next(")") {
			err = errors.New("a parenthesis is not closed")
		}
		return all, err
	case len(e.rest) == 0 || e.rest[0] == "+" && len(e.rest) == 1:
		return nil, errors.New("it ends too early")
	case e.next("+"):
		name := e.rest[0]
		e.rest = e.rest[1:]
		text, known := e.sets[name]
		if !known {
			return nil, fmt.Errorf("there is no set %q", name)
		}
		return e.read(name, text)
	}
	word := e.rest[0]
	name, known := e.model(word)
	if !known {
		return nil, fmt.Errorf("there is no model %q", word)
	}
	e.rest = e.rest[1:]
	return [][]string{{name}}, nil
}
