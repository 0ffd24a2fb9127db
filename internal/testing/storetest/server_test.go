package storetest

import "testing"

// TestPortsAreGivenOnce takes so many that some would be given twice by chance.
func TestPortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 500 {
		address := FreeAddress(t)
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
	}
}
