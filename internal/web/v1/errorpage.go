package v1

import (
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/docs"
)

// errorPagePath is where the codes of errors are explained.
const errorPagePath = "/docs/errors"

// ErrorPagePattern is the route of that page. Error replies link to it, so it is served
// wherever the unified API is.
const ErrorPagePattern = "GET " + errorPagePath

// errorPageHead has no references to anything else.
const errorPageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Error codes of Patchbay</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em}h2{margin-top:2em;font-size:1.2em}
:target{background:Mark;color:MarkText}code{font-size:.9em}</style></head><body>
`

// helpLink is the header that leads from an error to what is said about its code.
func helpLink(code string) []string {
	return []string{"<" + errorPagePath + "#" + code + `>; rel="help"`}
}

// errorPage returns docs/errors.md as a page. Of Markdown it knows what that page has:
// headings, paragraphs and code.
func errorPage() []byte {
	var b strings.Builder
	b.WriteString(errorPageHead)
	for block := range strings.SplitSeq(docs.Errors(), "\n\n") {
		block = strings.TrimSpace(block)
		if title, ok := strings.CutPrefix(block, "# "); ok {
			b.WriteString("<h1>" + html.EscapeString(title) + "</h1>\n")
		} else if code, ok := strings.CutPrefix(block, "## "); ok {
			code = html.EscapeString(code)
			b.WriteString(`<h2 id="` + code + `">` + code + "</h2>\n")
		} else {
			b.WriteString("<p>")
			for i, part := range strings.Split(block, "`") {
				part = html.EscapeString(part)
				if i%2 == 1 {
					part = "<code>" + part + "</code>"
				}
				b.WriteString(part)
			}
			b.WriteString("</p>\n")
		}
	}
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}

// ErrorPage answers GET /docs/errors.
func (a *API) ErrorPage(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(a.errorPage)))
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(a.errorPage) // a client that left does not need it
}
