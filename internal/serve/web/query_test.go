package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

type sampleQuery struct {
	web.PageQuery
	Name    string             `json:"name" required:"true"`
	Service schema.ServiceType `json:"service" empty:"true"`
	Since   time.Time          `json:"since" empty:"true"`
	Least   int                `json:"least" minimum:"1" empty:"true"`
	Brief   bool               `json:"brief"`
}

func TestQueriesAreReadByTheTagsOfTheDocument(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"name=x": "",
		"name=x&service=img-gen&since=2026-01-31T00:00:00Z&least=7&BRIEF&page=2&size=100": "",
		"name=x&service=&since=&least=": "",
		"":                              "name: is required",
		"name=":                         "name: is required",
		"name=x&page=":                  "page: want a number from 1 to 1073741824",
		"name=x&size=101":               "size: want a number from 1 to 100",
		"name=x&least=0":                "least: want a number from 1 on",
		"name=x&since=yesterday":        "since: want a time such as 2026-01-31T00:00:00Z",
		"name=x&brief=perhaps":          "brief: want true or false",
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil)
		var got sampleQuery
		err := web.ReadQuery(request, &got)
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

func TestQueriesFillTheirFields(t *testing.T) {
	t.Parallel()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?name=x&service=IMG_GEN&least=7&brief=1&page=2", nil)
	var got sampleQuery
	if err := web.ReadQuery(request, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "x" || got.Service != schema.ImgGen || got.Least != 7 || !got.Brief {
		t.Errorf("%+v", got)
	}
	shown := web.OnPage(got.Page(), make([]int, 25))
	if page := got.Page(); len(shown) != 5 || page.Number != 2 || page.Size != 20 {
		t.Errorf("%d elements, %+v", len(shown), page)
	}
}
