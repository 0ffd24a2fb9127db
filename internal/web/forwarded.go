package web

import (
	"net/http"
	"strings"
)

// isForwarded tells whether a proxy sent the request for a client that is not on
// this machine, or does not say where the client is. All that proxies wrote
// counts, because any of them may be the one that lets others in: the entries of
// X-Forwarded-For and X-Real-Ip, and the members "for" of Forwarded. A proxy that
// names no client, as with Via alone, may be one on this machine.
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

// isElsewhere tells whether an entry names a client, and not by an address of
// loopback: "unknown" and made-up names may stand for anybody.
func isElsewhere(entry string) bool {
	entry = strings.TrimSpace(entry)
	if entry == "" {
		return false
	}
	addr, ok := parseHop(entry)
	return !ok || !addr.IsLoopback()
}
