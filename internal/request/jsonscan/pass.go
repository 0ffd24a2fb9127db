package jsonscan

import "bytes"

// EndOfValue returns where a value of the text ends that starts at i, for values that lie
// deeper than others are looked up. The value is part of an array or an object.
func (d *Document) EndOfValue(i int) int {
	open := 0
	for ; ; i++ {
		switch d.data[i] {
		case '"':
			i = d.EndOfString(i + 1)
			if open == 0 {
				return i + 1
			}
		case '[', '{':
			open++
		case ']', '}':
			if open == 0 {
				return i
			}
			if open--; open == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if open == 0 {
				return i
			}
		}
	}
}

// EndOfString returns the position of the quote that closes the string of the text with
// content from i on. The ends of long strings are known.
func (d *Document) EndOfString(i int) int {
	const short = 64 // names, and most other strings
	near := d.data[i:min(i+short, len(d.data))]
	if quote := bytes.IndexByte(near, '"'); quote == 0 || quote > 0 && near[quote-1] != '\\' {
		return i + quote
	}
	if end := d.endOfLong(uint32(i)); end > 0 {
		return end
	}
	return passString(d.data, i)
}

// endOfLong returns the end of the long string with content from a place on, or 0 if none
// begins there. The steps of the search do not depend on its findings, and such steps are
// fast for the processor.
func (d *Document) endOfLong(start uint32) int {
	if len(d.long) == 0 {
		return 0
	}
	at := 0
	for left := len(d.long); left > 1; left -= left / 2 {
		if next := at + left/2; d.long[next].start <= start {
			at = next
		}
	}
	if d.long[at].start != start {
		return 0
	}
	return int(d.long[at].end)
}

// passString passes over the content of a checked string that continues at i, and returns the
// position of the quote that closes it.
func passString(text []byte, i int) int { return i + EndOfText(text[i:]) }

// EndOfText returns the length of the content of a string up to the quote that closes it, or of all
// the text if none does.
func EndOfText(text []byte) int {
	for at := 0; ; at++ {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return len(text)
		}
		at += quote
		escapes := 0
		for escapes < at && text[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}
