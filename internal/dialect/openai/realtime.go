package openai

import (
	"net/http"
	"net/url"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Realtime asks for a WebSocket of the Realtime API. All messages over it are passed
// on.
var Realtime = &dialect.Adapter{Call: callRealtime}

// callRealtime writes the request that opens the WebSocket. Its query names the model, and
// repeats the purpose of the session from the client's query.
func callRealtime(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	query := url.Values{"model": {to.ModelFor(req)}}
	if own, err := url.ParseQuery(req.Query); err == nil && own.Get("intent") != "" {
		query.Set("intent", own.Get("intent"))
	}
	call.Method, call.Path, call.Body = http.MethodGet, to.PathFor(req)+"?"+query.Encode(), call.Body[:0]
	call.Header = append(call.Header[:0], to.Header...)
	if beta := req.Header.Get("Openai-Beta"); beta != "" {
		call.AddHeader("OpenAI-Beta", beta)
	}
	return nil
}
