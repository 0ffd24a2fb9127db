package transport

import (
	"strings"
	"testing"
)

func TestParseOrigin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		base, text, addr, host, name string
	}{
		{"http://a.example", "http://a.example", "a.example:80", "a.example", "a.example"},
		{"HTTPS://A.Example/v1/", "https://a.example", "a.example:443", "a.example", "a.example"},
		{"https://a.example:443/x", "https://a.example", "a.example:443", "a.example", "a.example"},
		{"https://a.example:80", "https://a.example:80", "a.example:80", "a.example:80", "a.example"},
		{"http://a.example:0080", "http://a.example", "a.example:80", "a.example", "a.example"},
		{"http://10.0.0.1:8000", "http://10.0.0.1:8000", "10.0.0.1:8000", "10.0.0.1:8000", "10.0.0.1"},
		{"http://[::1]:8000", "http://[::1]:8000", "[::1]:8000", "[::1]:8000", "::1"},
		{"https://[2001:db8::1]", "https://[2001:db8::1]", "[2001:db8::1]:443", "[2001:db8::1]", "2001:db8::1"},
		{"http://[fe80::1%25eth0]:1", "http://[fe80::1]:1", "[fe80::1%eth0]:1", "[fe80::1]:1", "fe80::1"},
		{"http://my_service:11434", "http://my_service:11434", "my_service:11434", "my_service:11434", "my_service"},
	}
	for _, tt := range tests {
		o, err := ParseOrigin(tt.base)
		if err != nil {
			t.Errorf("%s: %v", tt.base, err)
			continue
		}
		if o.String() != tt.text || o.Addr() != tt.addr || o.host != tt.host || o.name != tt.name {
			t.Errorf("%s: got %s, %s, %s, %s", tt.base, o, o.Addr(), o.host, o.name)
		}
	}
}

func TestParseOriginRefuses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"", "a.example", "//a.example", "http://", "http:///v1", "ftp://a.example", "file:///etc/passwd", "unix:///run/x",
		"http://user:secret@a.example", "http://a.example?x=secret", "http://a.example?", "http://a.example/#secret", "http://a.example#",
		"http://a.example:0", "http://a.example:65536", "http://a.example:", "http://a.example:x",
		"http://a b", "http://a\r\nX: secret", "http://[::1", "http://[fe80::1%25a b]", "http://bücher.example", "http://.", "http://a.example\x00",
	} {
		_, err := ParseOrigin(base)
		if err == nil {
			t.Errorf("%q was accepted", base)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error repeats the URL: %v", base, err)
		}
	}
}
