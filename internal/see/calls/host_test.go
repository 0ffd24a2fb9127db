package calls

import "testing"

// TestHostsAreWrittenAsBrowsersDo: the console reads the host of an instance from its address, and
// asks for it by that name.
func TestHostsAreWrittenAsBrowsersDo(t *testing.T) {
	t.Parallel()
	for instance, want := range map[string]string{
		"m@http://gpu-2:8000":              "gpu-2:8000",
		"m@http://GPU-2:80/v1":             "gpu-2",
		"m@https://api.example.com:443/v1": "api.example.com",
		"m@https://api.example.com:80":     "api.example.com:80",
		"a@b@http://[::1]:9":               "[::1]:9",
		"m@process":                        "m@process",
	} {
		if got := HostOf(instance); got != want {
			t.Errorf("%s: %s, want %s", instance, got, want)
		}
	}
}
