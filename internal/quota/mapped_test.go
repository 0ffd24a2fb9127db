package quota

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What was appended to a segment is in the file, as any process sees it, before the
// append returns; zeros may follow it until the segment is closed.
func TestAppendedRecordsAreInTheFileAtOnce(t *testing.T) {
	dir := dirDisk{path: t.TempDir()}
	file, err := dir.create("segment")
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for n := range 40 { // more than is mapped at a time
		part := bytes.Repeat([]byte{byte('a' + n%26)}, 10_007)
		if written, err := file.Write(part); err != nil || written != len(part) {
			t.Fatalf("%d bytes written, %v", written, err)
		}
		want = append(want, part...)
		got, err := os.ReadFile(filepath.Join(dir.path, "segment"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(got, want) || !allZero(got[len(want):]) {
			t.Fatalf("after %d appends the file has %d bytes, and not those", n+1, len(got))
		}
	}
	if err := file.Sync(); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.read("segment"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("after the end the file has %d bytes (%v), want %d", len(got), err, len(want))
	}
}

func TestSegmentsThatWereNotWrittenAreEmpty(t *testing.T) {
	dir := dirDisk{path: t.TempDir()}
	file, err := dir.create("segment")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := dir.read("segment"); err != nil || len(got) != 0 {
		t.Errorf("the file has %d bytes (%v)", len(got), err)
	}
}
