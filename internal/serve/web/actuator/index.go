package actuator

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

type link struct {
	Href      string `json:"href"`
	Templated bool   `json:"templated"`
}

// linkIndex is the reply of the index.
type linkIndex struct {
	Links map[string]link `json:"_links"`
}

// endpoints are the links of the index, by their names.
var endpoints = [][2]string{
	{"self", ""},
	{"health", "/health"},
	{"health-path", "/health/{*path}"},
	{"info", "/info"},
	{"env", "/env"},
	{"env-toMatch", "/env/{toMatch}"},
	{"loggers", "/loggers"},
	{"loggers-name", "/loggers/{name}"},
	{"metrics", "/metrics"},
	{"metrics-requiredMetricName", "/metrics/{requiredMetricName}"},
	{"prometheus", "/prometheus"},
}

func (a *API) index(c *web.Call) (linkIndex, error) {
	base := baseURL(c.Request) + "/actuator"
	links := make(map[string]link, len(endpoints))
	for _, e := range endpoints {
		links[e[0]] = link{Href: base + e[1], Templated: strings.Contains(e[1], "{")}
	}
	return linkIndex{links}, nil
}

// The patterns that forwarded headers and Host must match; other values are ignored.
var (
	saneHost   = regexp.MustCompile(`^[\w.:\[\]-]{1,255}$`)
	sanePrefix = regexp.MustCompile(`^(/[\w.~-]+){1,8}$`)
)

// baseURL returns the address that the client used to reach the gateway.
func baseURL(r *http.Request) string {
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil || strings.EqualFold(first(r, "X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	if forwarded := first(r, "X-Forwarded-Host"); forwarded != "" {
		host = forwarded
	}
	if !saneHost.MatchString(host) {
		host = "localhost"
	}
	if forwarded := strings.TrimSuffix(first(r, "X-Forwarded-Prefix"), "/"); sanePrefix.MatchString(forwarded) {
		prefix = forwarded
	}
	return scheme + "://" + host + prefix
}

// first returns the first element of a header's list.
func first(r *http.Request, header string) string {
	value, _, _ := strings.Cut(r.Header.Get(header), ",")
	return strings.TrimSpace(value)
}
