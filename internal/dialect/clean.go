package dialect

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxMessage is how many characters of a backend's text a caller gets to see
	// in the details of an error, maxReason how many in its message.
	maxMessage = 500
	maxReason  = 300
)

// secretText matches what must not be shown wherever it comes from: bearer
// tokens, keys in the usual shapes, addresses with a scheme, and hosts by the
// words that stand before them in the errors of common HTTP clients.
var secretText = regexp.MustCompile(`(?i)bearer\s+\S+` +
	`|\b(?:sk|pk|rk|gsk|hf|xai|key|pat|ghp|AIza)[-_][A-Za-z0-9_\-]{8,}|AIza[0-9A-Za-z_\-]{16,}` +
	`|\b[a-z][a-z0-9+.-]*://\S+` +
	`|\blookup\s+\S+|\b(?:host|port)=\S+`)

const hidden = "[hidden]"

// shortestSecret is the length below which a value is not looked for: it would
// hide half of every text.
const shortestSecret = 4

// secretsOf lists what no caller may read of an endpoint, the longest first, so
// that what contains another is hidden whole.
func secretsOf(base *url.URL, e Endpoint) []string {
	list := []string{e.BaseURL, base.Host, e.APIKey}
	if name := base.Hostname(); strings.ContainsAny(name, ".:") {
		list = append(list, name) // a bare word may be the name of a model, too
	}
	if password, ok := base.User.Password(); ok {
		list = append(list, password)
	}
	for _, value := range e.Headers {
		list = append(list, value)
		if _, token, ok := strings.Cut(value, " "); ok {
			list = append(list, token) // a credential without its scheme
		}
	}
	for i := range list {
		list[i] = oneLine(list[i])
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < shortestSecret })
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(list)
}

// Clean makes a backend's text fit for callers: one line without markup, cut, and
// without the instance's secrets and without keys, host names or addresses of
// anybody.
func (t *Target) Clean(text string) string { return cut(t.hide(text), maxMessage) }

// Reason is Clean for the message of an error, which is shorter.
func (t *Target) Reason(text string) string { return cut(t.hide(text), maxReason) }

func (t *Target) hide(text string) string {
	text = oneLine(withoutMarkup(text))
	for _, secret := range t.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return hideHosts(secretText.ReplaceAllString(text, hidden))
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// oneLine makes every run of space and control characters one space.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// withoutMarkup puts a space in the place of every tag and comment, so that what
// is left cannot join to a new one. A model's own marks, such as <|end|>, stay.
func withoutMarkup(text string) string {
	var out strings.Builder
	for {
		open := strings.IndexByte(text, '<')
		if open < 0 || open+1 == len(text) {
			break
		}
		end := -1
		if isTagStart(text[open+1]) {
			end = strings.IndexByte(text[open:], '>')
		}
		if end < 0 {
			out.WriteString(text[:open+1])
			text = text[open+1:]
			continue
		}
		out.WriteString(text[:open])
		out.WriteByte(' ')
		text = text[open+end+1:]
	}
	out.WriteString(text)
	return out.String()
}

func isTagStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '/' || c == '!' || c == '?'
}

// hostText matches what may be a host, with or without a port: an IPv6 address in
// brackets, or a run of the characters of which names and addresses are made.
var hostText = regexp.MustCompile(`\[[0-9A-Fa-f:.]+(?:%\w+)?\](?::\d+)?|[\w.:%-]*[\w:]`)

// hideHosts hides host names and addresses.
func hideHosts(text string) string {
	return hostText.ReplaceAllStringFunc(text, func(word string) string {
		if isHost(word) {
			return hidden
		}
		return word
	})
}

// isHost tells whether a word names a host: an address, a name under a domain
// that is in use, or any name with a port. A bare word is not one; it may as well
// be the name of a model or a file.
func isHost(word string) bool {
	// A colon behind a word is punctuation, and one before it a part of no name.
	word = strings.TrimRight(word, ":")
	if strings.Count(word, ":") < 2 {
		word = strings.TrimLeft(word, ":")
	}
	if _, err := netip.ParseAddr(strings.Trim(word, "[]")); err == nil {
		return true
	}
	if _, err := netip.ParseAddrPort(word); err == nil {
		return true
	}
	name, port, hasPort := strings.Cut(word, ":")
	if hasPort && !isPort(port) {
		return false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return false
		}
	}
	last := strings.ToLower(labels[len(labels)-1])
	switch {
	case last == "localhost":
		return true
	case hasPort: // a word with a number behind it is a host if it looks like one
		return strings.ContainsFunc(last, unicode.IsLetter) && (len(labels) > 1 || strings.ContainsAny(name, "-0123456789"))
	case len(labels) == 1:
		return false
	}
	// Two letters are a country, but also the end of many a file's name.
	return slices.Contains(domains, last) || len(labels) > 2 && len(last) == 2 && !strings.ContainsAny(last, "0123456789")
}

// domains are the last labels by which a host name is told from other words with
// a dot in them.
var domains = []string{
	"com", "net", "org", "edu", "gov", "mil", "int", "info", "biz", "io", "ai", "dev", "app", "cloud", "host", "site",
	"internal", "local", "localdomain", "lan", "home", "arpa", "corp", "intranet", "intra", "private", "svc", "cluster",
	"test", "example", "invalid",
}

// isLabel tells whether a text can be one of the parts of a host name.
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c == '-' && i > 0 && i < len(s)-1 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			continue
		}
		return false
	}
	return s != ""
}

// isPort tells whether a text is a port rather than a line or a small count.
func isPort(s string) bool { return len(s) >= 2 && len(s) <= 5 && isNumber(s) }

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
