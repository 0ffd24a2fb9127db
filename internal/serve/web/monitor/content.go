package monitor

import (
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// callContent holds the content of a call that is kept beside its record.
type callContent struct {
	RequestID string          `json:"requestId"`
	Kept      metrics.Capture `json:"kept" doc:"none where nothing was captured, or later calls took its place."`
	Headers   []callHeader    `json:"headers,omitzero" doc:"Of the request, by name."`
	Request   *callBody       `json:"request,omitzero"`
	Answer    *callBody       `json:"answer,omitzero"`

	tenant string
}

type callHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Masked bool   `json:"masked,omitzero" doc:"The value is secret; at most its last four characters are shown."`
}

type callBody struct {
	ContentType string `json:"contentType,omitzero"`
	Bytes       int64  `json:"bytes" doc:"The length of the whole body."`
	Text        string `json:"text,omitzero"`
	Cut         bool   `json:"cut,omitzero" doc:"Whether its end, or long runs of base64, are left out."`
}

// Docs says more about some members than a tag has room for.
func (callBody) Docs() map[string]string {
	return map[string]string{
		"text": "At most 64 KiB; left out where the body is not text. Of a form, its fields and the sizes of " +
			"its files.",
	}
}

// content returns the content that is kept of the call with the id in the path.
func (a *API) content(c *web.Call, q *callQuery) (callContent, error) {
	return findCall(a, c, q, func(call *calls.Record) callContent {
		view := callContent{RequestID: call.RequestID, tenant: call.Tenant}
		captured := a.Recorder.FindCaptured(call)
		if captured == nil {
			return view
		}
		view.Kept = captured.What
		view.Headers = make([]callHeader, len(captured.Headers))
		for i, h := range captured.Headers {
			view.Headers[i] = callHeader{h.Name, h.Value, h.IsMasked}
		}
		if captured.What == metrics.CaptureContent {
			view.Request, view.Answer = viewBody(&captured.Request), viewBody(&captured.Answer)
		}
		return view
	})
}

func viewBody(body *calls.Content) *callBody {
	return &callBody{ContentType: body.Type, Bytes: body.Bytes, Text: body.String(), Cut: body.IsCut}
}
