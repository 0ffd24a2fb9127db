package reply

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// Bytes that come together with an error, or with the end, are not lost.
func TestChunksThatComeWithAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, row := range map[string]struct {
		from io.Reader
		ends error
	}{
		"with the end": {iotest.DataErrReader(strings.NewReader("some audio")), io.EOF},
		"with an error": {
			iotest.DataErrReader(io.MultiReader(strings.NewReader("some audio"), iotest.ErrReader(broken))), broken,
		},
		"before it": {io.MultiReader(strings.NewReader("some audio"), iotest.ErrReader(broken)), broken},
	} {
		var got []byte
		buf := make([]byte, 64)
		chunk, err := readChunk(row.from, buf)
		for ; err == nil; chunk, err = readChunk(row.from, buf) {
			got = append(got, chunk...)
		}
		if string(got) != "some audio" || !errors.Is(err, row.ends) || chunk != nil {
			t.Errorf("%s: %q, then %q and %v", name, got, chunk, err)
		}
	}
}
