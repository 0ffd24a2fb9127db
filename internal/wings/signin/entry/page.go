package entry

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/console"
	"github.com/patchbay-ai/patchbay/internal/see/say"
)

const (
	english = "en"
	chinese = "zh"
	// languageHeader holds the language of a page from the time it is known.
	languageHeader = "Content-Language"
)

// speak chooses the language of a page: the one that the console shows, or else that of the browser.
func speak(w http.ResponseWriter, r *http.Request, chosen string) {
	if chosen != english && chosen != chinese {
		chosen = english
		if strings.Contains(strings.ToLower(r.Header.Get("Accept-Language")), chinese) {
			chosen = chinese
		}
	}
	w.Header().Set(languageHeader, chosen)
}

// words are the texts of the page in a language.
type words struct{ Lang, Title, Heading, Why, Back string }

func wordsIn(language string, why say.Sentence) words {
	if language == chinese {
		return words{"zh-CN", "登录", "您尚未登录", why.In(console.Chinese), "返回登录页"}
	}
	return words{"en", "Sign-in", "You are not signed in", why.String(), "Back to the sign-in page"}
}

// refuse shows a page that says why nobody was let in.
func (h *hall) refuse(w http.ResponseWriter, status int, why say.Sentence) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if err := page().Execute(w, wordsIn(header.Get(languageHeader), why)); err != nil {
		h.core.Log.Debug("a page was not read to its end", "error", err)
	}
}

func page() *template.Template {
	return template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}} · Patchbay</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem;color:#1c1d21}
@media(prefers-color-scheme:dark){body{background:#16171a;color:#e6e6e8}a{color:#8ab4ff}}</style></head>
<body><h1>{{.Heading}}</h1><p>{{.Why}}</p><p><a href="/">{{.Back}}</a></p></body></html>
`))
}
