package entry

import (
	"html"
	"io"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/wings/signin"
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

// pageIn returns the page with the reason in a language.
func pageIn(language string, why say.Sentence) string {
	tag, title, heading, back := "en", "Sign-in", "You are not signed in", "Back to the sign-in page"
	reason := why.String()
	if language == chinese {
		tag, title, heading, reason, back = "zh-CN", "登录", "您尚未登录", why.In(signin.Chinese), "返回登录页"
	}
	return `<!doctype html>
<html lang="` + tag + `"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>` + title + ` · Patchbay</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1rem;color:#1c1d21}
@media(prefers-color-scheme:dark){body{background:#16171a;color:#e6e6e8}a{color:#8ab4ff}}</style></head>
<body><h1>` + heading + `</h1><p>` + html.EscapeString(reason) + `</p><p><a href="/">` + back + `</a></p></body></html>
`
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
	if _, err := io.WriteString(w, pageIn(header.Get(languageHeader), why)); err != nil {
		h.core.Log.Debug("a page was not read to its end", "error", err)
	}
}
