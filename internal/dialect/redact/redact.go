// Package redact hides secrets, hosts and addresses in the texts of backends before callers see them.
package redact

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// secretPattern matches text that callers must never see: bearer tokens, keys in
// the usual formats, URLs, and hosts after the words that precede them in the
// errors of common HTTP clients.
var secretPattern = regexp.MustCompile(`(?i)bearer\s+\S+` +
	`|\b(?:sk|pk|rk|gsk|hf|xai|key|pat|ghp|AIza)[-_][A-Za-z0-9_\-]{8,}|AIza[0-9A-Za-z_\-]{16,}` +
	`|\b[a-z][a-z0-9+.-]*://\S+` +
	`|\blookup\s+\S+|\b(?:host|port)=\S+`)

const redacted = "[hidden]"

// shortestSecret is the length below which a value is not redacted: a very short
// value would match in many places of any text.
const shortestSecret = 4

// Secrets are values that callers must not see, the longest first: a value which contains another is
// hidden whole.
type Secrets []string

// Of returns the secrets among some values: those that are long enough.
func Of(values []string) Secrets {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = oneLine(value)
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < shortestSecret })
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(list)
}

// longestRead is how many bytes of a text are searched for possible secrets; the search
// takes long. Callers see the beginning of the result only.
const longestRead = 8 << 10

// Clean makes a text safe to be shown to callers: it returns one line of at most so many characters
// without markup. The secrets and all keys, host names and addresses in it are hidden.
func (s Secrets) Clean(text string, most int) string {
	text = oneLine(stripMarkup(text))
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	if len(text) > longestRead { // cut between words, because a part of a secret is not recognised
		text = text[:strings.LastIndexByte(text[:longestRead], ' ')+1] + "…"
	}
	return truncate(redactHosts(secretPattern.ReplaceAllString(text, redacted)), most)
}

// truncate shortens a text to a number of characters.
func truncate(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// oneLine replaces every run of space and control characters by one space.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// stripMarkup replaces every HTML tag and comment by a space: the rest cannot form a
// new tag. Special tokens of models, such as <|end|>, are kept.
func stripMarkup(text string) string {
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

// hostPattern matches a possible host, with or without a port: an IPv6 address in
// brackets, or a run of the characters of names and addresses.
var hostPattern = regexp.MustCompile(`\[[0-9A-Fa-f:.]+(?:%\w+)?\](?::\d+)?|[\w.:%-]*[\w:]`)

// redactHosts hides host names and addresses.
func redactHosts(text string) string {
	return hostPattern.ReplaceAllStringFunc(text, func(word string) string {
		if isHost(word) {
			return redacted
		}
		return word
	})
}

// isHost reports whether a word names a host: an address, a name that ends in one
// of domains, or a name with a port. A single label is not taken for a host, because
// it may be the name of a model or a file.
func isHost(word string) bool {
	// Colons at either end of a word are punctuation, unless it is an IPv6 address.
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
	case hasPort: // word:number may also be a tag or a line, so the word must look like a host
		return strings.ContainsFunc(last, unicode.IsLetter) &&
			(len(labels) > 1 || strings.ContainsAny(name, "-0123456789"))
	case len(labels) == 1:
		return false
	}
	// Two letters may be a country code, but also the extension of a file.
	return slices.Contains(domains, last) || len(labels) > 2 && len(last) == 2 &&
		!strings.ContainsAny(last, "0123456789")
}

// domains are the last labels that distinguish host names from other words with a
// dot.
var domains = []string{
	"com", "net", "org", "edu", "gov", "mil", "int", "info", "biz", "io", "ai", "dev", "app", "cloud", "host", "site",
	"internal", "local", "localdomain", "lan", "home", "arpa", "corp", "intranet", "intra", "private", "svc", "cluster",
	"test", "example", "invalid",
}

// isLabel reports whether a text is a valid label of a host name.
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

// isPort reports whether a text may be a port. One digit is more likely a line
// number or a count.
func isPort(s string) bool { return len(s) >= 2 && len(s) <= 5 && isNumber(s) }

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
