package calls

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TestOutcomes: the one definition of lost, rescued and refused.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	fails := func(code string) func(*Record) {
		return func(c *Record) {
			c.Begin("m@http://a", "openai", time.Time{})
			c.Fail(code, "", say.New("call.broke"))
			c.Code, c.Status, c.Routed = code, 502, true
		}
	}
	answers := func(c *Record) {
		c.Begin("m@http://b", "openai", time.Time{})
		c.Code, c.Status = "", 200
	}
	set := func(code string, status int, routed bool) func(*Record) {
		return func(c *Record) { c.Code, c.Status, c.Routed = code, status, routed }
	}
	for name, test := range map[string]struct {
		steps []func(*Record)
		want  Outcome
	}{
		"the first instance answers":    {[]func(*Record){answers}, Answered},
		"another instance answers":      {[]func(*Record){fails(schema.CodeUpstreamError), answers}, Rescued},
		"another model answers":         {[]func(*Record){answers, func(c *Record) { c.Left = "other" }}, Rescued},
		"the slower of two calls":       {[]func(*Record){fails(GivenUp), answers}, Answered},
		"every instance fails":          {[]func(*Record){fails(schema.CodeUpstreamError), fails(schema.CodeUpstreamTimeout)}, Lost},
		"breakers are open":             {[]func(*Record){set(schema.CodeCircuitBreakerOpen, 503, true), func(c *Record) { c.Model = "m" }}, Lost},
		"the backend's key is wrong":    {[]func(*Record){fails(schema.CodeUpstreamAuth)}, Lost},
		"the backend blames the call":   {[]func(*Record){fails(schema.CodeUpstreamError), func(c *Record) { c.Status = 400 }}, Refused},
		"a limit":                       {[]func(*Record){set(schema.CodeKeyRateLimited, 429, true), func(c *Record) { c.Told = &Told{Of: "key/a"} }}, Refused},
		"a wrong key":                   {[]func(*Record){set(schema.CodeInvalidAPIKey, 401, false)}, Refused},
		"no permission":                 {[]func(*Record){set(schema.CodePermissionDenied, 403, false)}, Refused},
		"no JSON":                       {[]func(*Record){set(schema.CodeInvalidJSON, 400, false)}, Refused},
		"no such model":                 {[]func(*Record){set(schema.CodeServiceUnavailable, 503, true)}, Refused},
		"no instance of the model":      {[]func(*Record){set(schema.CodeServiceUnavailable, 503, true), func(c *Record) { c.Model = "m" }}, Lost},
		"the caller leaves":             {[]func(*Record){fails(schema.CodeCancelled), func(c *Record) { c.Gone = true }}, Gone},
		"an operator stops it":          {[]func(*Record){fails(schema.CodeStopped)}, Stopped},
		"a stream breaks in the middle": {[]func(*Record){fails(schema.CodeUpstreamTruncated), func(c *Record) { c.Status = 200 }}, Lost},
	} {
		c := &Record{}
		for _, step := range test.steps {
			step(c)
		}
		c.Result = c.result()
		if got := c.Outcome(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
