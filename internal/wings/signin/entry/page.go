package entry

import (
	"html/template"
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/see/say"
)

// refuse shows a page that says why nobody was let in.
func (h *hall) refuse(w http.ResponseWriter, status int, why say.Sentence) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if err := page().Execute(w, why.String()); err != nil {
		h.core.Log.Debug("a page was not read to its end", "error", err)
	}
}

func page() *template.Template {
	return template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Sign-in · Patchbay</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem;color:#1c1d21}
@media(prefers-color-scheme:dark){body{background:#16171a;color:#e6e6e8}a{color:#8ab4ff}}</style></head>
<body><h1>You are not signed in</h1><p>{{.}}</p><p><a href="/">Back to the sign-in page</a></p></body></html>
`))
}
