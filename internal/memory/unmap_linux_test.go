package memory

import "testing"

// The program goes on after its pages were taken away; the test itself runs on them.
func TestTheProgramRunsOnWithoutItsPages(t *testing.T) {
	if err := ReleaseProgram(); err != nil {
		t.Fatal(err)
	}
	if got := len(t.Name()); got == 0 {
		t.Error("the name of the test is gone")
	}
}

// Only parts of the program's own file that cannot be written to are released: others
// would lose what was written.
func TestOnlyUnchangedPartsOfTheProgramAreReleased(t *testing.T) {
	const path = "/usr/bin/patch bay"
	for _, c := range []struct {
		line         string
		from, length uintptr
	}{
		{"00400000-00600000 r-xp 00000000 fe:01 1234                       /usr/bin/patch bay\n", 0x400000, 0x200000},
		{"00600000-00601000 r--p 00200000 fe:01 1234                       /usr/bin/patch bay\n", 0x600000, 0x1000},
		{"00601000-00700000 rw-p 00201000 fe:01 1234                       /usr/bin/patch bay\n", 0, 0},
		{"00400000-00600000 r-xp 00000000 fe:01 1234                       /usr/bin/other\n", 0, 0},
		{"7f0000000000-7f0000001000 r--p 00000000 00:00 0                  [vvar]\n", 0, 0},
		{"7f0000000000-7f0000001000 r--p 00000000 00:00 0\n", 0, 0},
		{"x-y r-xp 00000000 fe:01 1234 /usr/bin/patch bay\n", 0, 0},
		{"00400000-z r-xp 00000000 fe:01 1234 /usr/bin/patch bay\n", 0, 0},
		{"00400000-00300000 r-xp 00000000 fe:01 1234 /usr/bin/patch bay\n", 0, 0},
		{"", 0, 0},
	} {
		if from, length := unchangedPart([]byte(c.line), path); from != c.from || length != c.length {
			t.Errorf("%q: %#x, %#x", c.line, from, length)
		}
	}
}
