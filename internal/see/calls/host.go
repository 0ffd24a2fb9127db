package calls

import (
	"net/url"
	"strings"
)

// ModelOf returns the model of an instance, name@address: a request may have gone on to another
// model after it failed there.
func ModelOf(instance, otherwise string) string {
	if name, _, ok := cutLast(instance, "@http"); ok {
		return name
	}
	return otherwise
}

// HostOf returns the host of an instance, name@address, as browsers write it: in lower case, and
// without the port that its scheme has anyway.
func HostOf(instance string) string {
	_, address, ok := cutLast(instance, "@http")
	if !ok {
		return instance
	}
	parsed, err := url.Parse("http" + address)
	if err != nil || parsed.Host == "" {
		return instance
	}
	host := strings.ToLower(parsed.Host)
	if parsed.Scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

func cutLast(text, separator string) (before, after string, ok bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
