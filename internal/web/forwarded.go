package web

import (
	"net/http"
	"strings"
)

// isForwarded tells whether a proxy forwarded the request for a client that is not on
// this machine, or that it does not identify. Every entry of X-Forwarded-For and
// X-Real-Ip and every "for" of Forwarded counts, because any of the proxies may be
// reachable from other machines. A proxy that names no client, as with Via alone, is
// taken for one that serves this machine.
func isForwarded(h http.Header) bool {
	for _, name := range [...]string{"X-Forwarded-For", "X-Real-Ip"} {
		for _, line := range h[name] {
			for entry := range strings.SplitSeq(line, ",") {
				if isElsewhere(entry) {
					return true
				}
			}
		}
	}
	for _, line := range h["Forwarded"] {
		for pair := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ',' || r == ';' }) {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") && isElsewhere(strings.Trim(strings.TrimSpace(value), `"`)) {
				return true
			}
		}
	}
	return false
}

// isElsewhere tells whether an entry names a client by anything but a loopback address:
// "unknown" and obfuscated names may stand for any client.
func isElsewhere(entry string) bool {
	entry = strings.TrimSpace(entry)
	if entry == "" {
		return false
	}
	addr, ok := parseHop(entry)
	return !ok || !addr.IsLoopback()
}
