package callfile

import (
	"errors"
	"os"
	"testing"
	"time"
)

// With a master key a segment that is not sealed is refused: somebody else wrote it.
func TestAPlainSegmentIsRefusedWithAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := openFile(t, dir, Settings{}, nil)
	plain.offer(record(1))
	plain.flush(time.Now())
	plain.Close()
	for _, path := range segmentFiles(t, dir, "") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseSegment(data, nil); err != nil {
			t.Errorf("without a key: %v", err)
		}
		if _, err := parseSegment(data, keysOf(t, masterKey)); !errors.Is(err, errSegment) {
			t.Errorf("with a key: got %v, want %v", err, errSegment)
		}
	}
}
