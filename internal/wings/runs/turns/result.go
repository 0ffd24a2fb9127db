package turns

import "bytes"

// result writes the value of a tool's result.
func (w *walker) result(start int) {
	switch w.text[start] {
	case '"':
		end := w.doc.EndOfString(start + 1)
		w.told(w.text[start+1 : end])
	case '[':
		for i := w.elements(start); w.text[i] != ']'; i = w.after(w.doc.EndOfValue(i)) {
			w.result(i)
		}
	case '{':
		for i := w.elements(start); w.text[i] != '}'; {
			name, value, end := w.member(i)
			switch {
			case ids.Has(name), string(name) == "type":
			case string(name) == "text", string(name) == "content", string(name) == "output":
				w.result(value)
			default:
				w.write(name)
				w.told(w.text[value:end])
			}
			i = w.after(end)
		}
	default:
		w.told(w.text[start:w.doc.EndOfValue(start)])
	}
}

// onlyText returns the text in an object that has nothing else, or the whole value.
func (w *walker) onlyText(start, end int) []byte {
	if w.text[start] == '{' {
		if i := w.elements(start); w.text[i] != '}' {
			_, value, last := w.member(i)
			if w.text[value] == '"' && w.text[w.after(last)] == '}' {
				return w.text[value+1 : last-1]
			}
		}
	}
	return w.text[start:end]
}

// mostShort is how long the results of a step may be that only acknowledge.
const mostShort = 256

// told writes the text of a result, with its escapes, without the lines about its making.
func (w *walker) told(text []byte) {
	w.keep(w.withoutFrame(text))
	w.write(markEnd)
}

// keep writes a piece of a result, and keeps it while all of them are short.
func (w *walker) keep(text []byte) {
	w.write(text)
	if len(w.short) <= mostShort {
		w.short = append(w.short, text[:min(len(text), mostShort+1)]...)
	}
}

// response writes the result in a functionResponse.
func (w *walker) response(start int) {
	w.write(markEnd)
	if w.text[start] != '{' {
		return
	}
	for i := w.elements(start); w.text[i] != '}'; {
		name, value, end := w.member(i)
		if string(name) == "response" {
			w.told(w.onlyText(value, end))
		}
		i = w.after(end)
	}
}

// Lines that agents put around the output of a command and that differ from time to time: Codex
// before it, Qwen Code behind it.
var (
	lineEnd   = []byte(`\n`) // as it is escaped
	chunkLine = []byte("Chunk ID: ")
	timeLine  = []byte("Wall time: ")
	codeLine  = []byte("Exit code: ") // may come before them, and counts
	groupLine = []byte(`\nProcess Group PGID: `)
)

// mostFramed is how long such a line is.
const mostFramed = 64

// withoutFrame writes the beginning of a result, and returns the rest without such lines.
func (w *walker) withoutFrame(text []byte) []byte {
	for {
		end := bytes.Index(text[:min(len(text), mostFramed)], lineEnd)
		if end < 0 {
			break
		}
		line := text[:end]
		switch {
		case bytes.HasPrefix(line, codeLine):
			w.keep(line)
		case !bytes.HasPrefix(line, chunkLine) && !bytes.HasPrefix(line, timeLine):
			end = -1
		}
		if end < 0 {
			break
		}
		text = text[end+len(lineEnd):]
	}
	tail := max(len(text)-mostFramed, 0)
	if at := bytes.LastIndex(text[tail:], groupLine); at >= 0 {
		text = text[:tail+at]
	}
	return text
}

// Words of results that say no more than that a call was carried out, or that it found nothing,
// and words of those that say more.
var (
	doneWords = [...][]byte{[]byte("success"), []byte("updated"), []byte("created"), []byte("written"), []byte("wrote"),
		[]byte("saved"), []byte("applied"), []byte("modified"), []byte("deleted"), []byte("removed"), []byte("added"),
		[]byte("sent"), []byte("completed"), []byte("no output"), []byte("exited with code 0"), []byte("exit code: 0"),
		[]byte("no matches"), []byte("no files"), []byte("no results"), []byte("is empty"), []byte("are empty")}
	faultWords = [...][]byte{[]byte("error"), []byte("fail"), []byte("unsuccess"), []byte("not "), []byte("cannot"),
		[]byte("no such"), []byte("denied"), []byte("invalid")}
	doneTexts = [...][]byte{nil, []byte("ok"), []byte("done"), []byte("true"), []byte("null"), []byte("{}"),
		[]byte("[]")}
)

// acknowledges reports whether the results of tools say no more than that calls were carried out.
// Different calls have such results in ordinary runs, one after the other.
func acknowledges(results []byte) bool {
	if len(results) > mostShort {
		return false
	}
	var room [mostShort]byte
	text := room[:0]
	for _, c := range results {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		text = append(text, c)
	}
	bare := bytes.Trim(bytes.TrimSuffix(text, lineEnd), ` .!"`)
	for _, t := range doneTexts {
		if bytes.Equal(bare, t) {
			return true
		}
	}
	for _, word := range faultWords {
		if bytes.Contains(text, word) {
			return false
		}
	}
	for _, word := range doneWords {
		if bytes.Contains(text, word) {
			return true
		}
	}
	return false
}
