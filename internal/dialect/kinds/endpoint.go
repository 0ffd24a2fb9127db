package kinds

import (
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
)

// CutEndpoint cuts the endpoint of an API, such as /v1/chat/completions, off the end of a base
// URL. It returns the rest, to which the gateway adds the paths of its calls, and the endpoint,
// empty where the URL ends in none.
func CutEndpoint(baseURL string) (root, endpoint string) {
	root = strings.TrimRight(baseURL, "/")
	_, address, _ := strings.Cut(root, "://")
	segments := strings.Split(address, "/")[1:] // behind the host
	longest := 0
	for _, kind := range table {
		for _, route := range kind.Routes {
			longest = max(longest, endpointOf(segments, route.Path))
		}
		for _, route := range kind.Native {
			longest = max(longest, endpointOf(segments, route.Path))
		}
	}
	for _, segment := range segments[len(segments)-longest:] {
		endpoint += "/" + segment
	}
	return strings.TrimSuffix(root, endpoint), endpoint
}

// endpointOf returns how many segments at the end of a path are those of a route, 0 if they are
// not. A route counts with its version or, because servers have versions of their own, behind
// any. A single segment counts only then: elsewhere it may be the name of a place.
func endpointOf(path []string, route string) int {
	segments := strings.Split(route[1:], "/")
	if len(segments) > 1 && endIn(path, segments) {
		return len(segments)
	}
	rest := segments[1:]
	if !dialect.IsVersion(segments[0]) || len(rest) == 0 || !endIn(path, rest) {
		return 0
	}
	before := len(path) - len(rest) - 1
	if len(rest) == 1 && (before < 0 || !dialect.IsVersion(path[before])) {
		return 0
	}
	return len(rest)
}

// endIn reports whether a path ends in segments, in which {model} stands for any name.
func endIn(path, segments []string) bool {
	if len(path) < len(segments) {
		return false
	}
	for i, got := range path[len(path)-len(segments):] {
		if suffix, isNamed := strings.CutPrefix(segments[i], "{model}"); got != segments[i] &&
			!(isNamed && strings.HasSuffix(got, suffix)) {
			return false
		}
	}
	return true
}
