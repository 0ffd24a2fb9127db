package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/front"
)

// RefusalTo returns the whole reply to a request of HTTP/1.1 that no handler gets.
func RefusalTo(r front.Refusal) []byte {
	code := schema.CodeInvalidHTTP
	if r.Framing {
		code = schema.CodeInvalidBody
	}
	return RefusalOf(strconv.Itoa(r.Status)+" "+http.StatusText(r.Status), schema.NewError(code, say.Plain(r.Message)))
}

// RefusalOf is the whole reply to a request that no handler gets, with its status
// line's code and reason. The connection ends with it.
func RefusalOf(status string, err *schema.Error) []byte {
	body := err.Body()
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: "+
		"%s\r\n"+
		"Access-Control-Allow-Origin: *\r\nLink: </docs/errors#%s>; rel=\"help\"\r\nConnection: close\r\n\r\n%s",
		status, len(body), newRequestID(), err.Code, body)
}

// MaxHeaderBytes is the largest head of a request, with room for long credentials and
// trace headers.
const MaxHeaderBytes = 64 << 10
