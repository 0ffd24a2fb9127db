package processes

import (
	"errors"
	"strings"
)

// Command is a program and its arguments: a list of them, or one text that is split at its
// spaces and lines.
type Command []string

// OneOrMore allows a text in place of a list.
func (Command) OneOrMore() {}

// words returns the program and its arguments. A single text is split as a shell does, but
// nothing is replaced: quotes keep spaces, a backslash keeps the next character, and a line
// that begins with # is a comment.
func (c Command) words() ([]string, error) {
	if len(c) != 1 {
		return c, nil
	}
	var words []string
	var word strings.Builder
	quote, isWord, isLine := rune(0), false, true // isLine at the beginning of a line
	text := []rune(c[0])
	for i := 0; i < len(text); i++ {
		r := text[i]
		isSpace := strings.ContainsRune(" \t\r\n", r)
		escapes := i+1 < len(text) && (quote == 0 || quote == '"' && strings.ContainsRune("\"\\\n", text[i+1]))
		switch {
		case quote == 0 && r == '#' && isLine:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case r == '\\' && quote != '\'' && escapes:
			if i++; text[i] != '\n' { // which it hides
				word.WriteRune(text[i])
				isWord = true
			}
		case quote == 0 && isSpace:
			if isWord {
				words = append(words, word.String())
			}
			word.Reset()
			isWord = false
		case quote == 0 && (r == '\'' || r == '"'):
			quote, isWord = r, true
		case quote == r:
			quote = 0
		default:
			word.WriteRune(r)
			isWord = true
		}
		isLine = quote == 0 && (r == '\n' || isLine && isSpace)
	}
	if quote != 0 {
		return nil, errors.New("has a quotation mark " + string(quote) + " that is not closed")
	}
	if isWord {
		words = append(words, word.String())
	}
	return words, nil
}

// replaced returns the words with a value in place of a word such as $PORT.
func replaced(words []string, name, value string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = strings.ReplaceAll(word, name, value)
	}
	return all
}
