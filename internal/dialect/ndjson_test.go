package dialect

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

func TestNDJSONLines(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing":             {"", nil},
		"only empty lines":    {"\n\r\n \n", nil},
		"lines":               {"a\nb\n", []string{"a", "b"}},
		"no last line end":    {"a\nb", []string{"a", "b"}},
		"CRLF and space":      {" a \r\n\r\n\tb\r\n", []string{"a", "b"}},
		"byte order mark":     {"\xef\xbb\xbfa\n", []string{"a"}},
		"longer than a read":  {strings.Repeat("x", 3*firstRead) + "\ny\n", []string{strings.Repeat("x", 3*firstRead), "y"}},
		"CR alone is content": {"a\rb\n", []string{"a\rb"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, from := range []io.Reader{
				strings.NewReader(test.stream),
				iotest.OneByteReader(strings.NewReader(test.stream)),
				iotest.DataErrReader(strings.NewReader(test.stream)),
			} {
				got, err := readLines(NewNDJSON(from))
				if !errors.Is(err, io.EOF) {
					t.Errorf("ends in %v", err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("lines differ (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestNDJSONBoundsALine(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("a\n"), neverEnding('x'))
	lines := NewNDJSON(endless)
	got, err := readLines(lines)
	if !errors.Is(err, ErrEventTooLarge) || len(got) != 1 {
		t.Errorf("%d lines, then %v", len(got), err)
	}
	if len(lines.buf) > MaxEvent {
		t.Errorf("%d bytes were held", len(lines.buf))
	}
	if _, err := lines.Next(); !errors.Is(err, ErrEventTooLarge) {
		t.Errorf("asked again: %v", err)
	}
}

func TestNDJSONKeepsTheReadersError(t *testing.T) {
	broken := errors.New("reset")
	got, err := readLines(NewNDJSON(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("%d lines, then %v; a line that a failure cut off is no line", len(got), err)
	}
}

func TestNDJSONGivesMemoryBackWithoutLosingBytes(t *testing.T) {
	var text strings.Builder
	var want []string
	for _, size := range []int{MaxKept, 1, 5 * MaxKept, 10, 20, 3 * MaxKept, 5} {
		line := strings.Repeat("x", size)
		want = append(want, line)
		text.WriteString(line + "\r\n\n")
	}
	for _, size := range []int{7, 1000, MaxKept + 1, text.Len()} {
		lines := NewNDJSON(&chunkedReader{[]byte(text.String()), size})
		got, err := readLines(lines)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("in pieces of %d: %v, lines differ", size, err)
		}
		if size == 7 && cap(lines.buf) > MaxKept {
			t.Errorf("%d bytes of memory at the end, want at most %d", cap(lines.buf), MaxKept)
		}
	}
}

type neverEnding byte

func (c neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func readLines(lines *NDJSON) (got []string, err error) {
	for {
		line, err := lines.Next()
		if err != nil {
			return got, err
		}
		got = append(got, string(line))
	}
}

// chunkedReader hands its text out in pieces of a given size.
type chunkedReader struct {
	text []byte
	size int
}

func (r *chunkedReader) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(len(r.text), r.size)])
	r.text = r.text[n:]
	return n, nil
}

func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":2}\n"), uint8(1))
	f.Add([]byte("\xef\xbb\xbf \r\n\na\r\nb"), uint8(3))
	f.Add(bytes.Repeat([]byte("x"), firstRead+1), uint8(7))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		var want []string
		for line := range bytes.SplitSeq(bytes.TrimPrefix(text, []byte(jsonscan.ByteOrderMark)), []byte("\n")) {
			if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
				want = append(want, string(line))
			}
		}
		got, err := readLines(NewNDJSON(&chunkedReader{text, int(size) + 1}))
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ends in %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines differ (-want +got):\n%s", diff)
		}
	})
}
