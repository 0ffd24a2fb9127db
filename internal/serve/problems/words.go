package problems

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxWords bounds normalised words.
	maxWords = 120
	// longestWord is the length from which a word is taken for an identifier.
	longestWord = 40
	// hole stands for a part that differs from error to error.
	hole = "#"
)

// normalised returns the words of an error without the parts that differ from one error of a kind
// to the next: numbers, identifiers, addresses, paths, and all that is quoted.
func normalised(text string) string {
	var out strings.Builder
	var word []byte
	add := func(part string) {
		if out.Len() > 0 && part == hole && strings.HasSuffix(out.String(), hole) {
			return
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(part)
	}
	flush := func() {
		trimmed := strings.ToLower(strings.Trim(string(word), "-_./:=+~%"))
		if word = word[:0]; trimmed == "" {
			return
		}
		if isVariable(trimmed) {
			trimmed = hole
		}
		add(trimmed)
	}
	for rest := text; rest != "" && out.Len() < maxWords; {
		r, size := utf8.DecodeRuneInString(rest)
		closing := closingQuote(r)
		switch {
		case closing != 0 && len(word) == 0:
			flush()
			add(hole)
			_, after, _ := strings.Cut(rest[size:], string(closing))
			rest = after
			continue
		case r < utf8.RuneSelf &&
			(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@=+~%\\'", r)):
			word = append(word, byte(r))
		default:
			flush()
			if r >= utf8.RuneSelf && unicode.IsLetter(r) {
				out.WriteRune(r)
			}
		}
		rest = rest[size:]
	}
	flush()
	return strings.ToValidUTF8(out.String()[:min(out.Len(), maxWords)], "")
}

// isVariable reports whether a word names one thing: a number, an identifier, an address or a path.
func isVariable(word string) bool {
	return len(word) > longestWord || strings.ContainsAny(word, "/\\@:=") || strings.ContainsFunc(word, unicode.IsDigit)
}

// closingQuote returns the quote that ends what another one begins, 0 for other characters.
func closingQuote(r rune) rune {
	switch r {
	case '"', '\'', '`':
		return r
	case '“':
		return '”'
	case '‘':
		return '’'
	case '«':
		return '»'
	case '「':
		return '」'
	}
	return 0
}
