package v1

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Chat answers POST /v1/chat/completions.
func (a *API) Chat(w http.ResponseWriter, r *http.Request) {
	a.json(w, r, schema.Chat, (*schema.Request).ParseChat)
}

// Embeddings answers POST /v1/embeddings.
func (a *API) Embeddings(w http.ResponseWriter, r *http.Request) {
	a.json(w, r, schema.Embedding, (*schema.Request).ParseEmbedding)
}

// Rerank answers POST /v1/rerank.
func (a *API) Rerank(w http.ResponseWriter, r *http.Request) {
	a.json(w, r, schema.Rerank, (*schema.Request).ParseRerank)
}

// Speech answers POST /v1/audio/speech.
func (a *API) Speech(w http.ResponseWriter, r *http.Request) {
	a.json(w, r, schema.TTS, (*schema.Request).ParseSpeech)
}

// Transcriptions answers POST /v1/audio/transcriptions.
func (a *API) Transcriptions(w http.ResponseWriter, r *http.Request) {
	a.form(w, r, schema.STT, (*schema.Request).ParseTranscription)
}

// Images answers POST /v1/images/generations.
func (a *API) Images(w http.ResponseWriter, r *http.Request) {
	a.json(w, r, schema.ImgGen, (*schema.Request).ParseImage)
}

// ImageEdits answers POST /v1/images/edits.
func (a *API) ImageEdits(w http.ResponseWriter, r *http.Request) {
	a.form(w, r, schema.ImgEdit, (*schema.Request).ParseImageEdit)
}

// json answers an endpoint that takes a JSON body.
func (a *API) json(w http.ResponseWriter, r *http.Request, service schema.ServiceType, parse func(*schema.Request, []byte) error) {
	x := a.begin(w, r, service)
	defer a.end(x)
	if !a.admit(x) || !a.identify(x) || !x.readJSON(int64(a.current.Load().Limits.JSONBody)) {
		return
	}
	x.call.Ready = x.call.At(time.Now())
	if len(x.body) > freeBody {
		x.request.Body.Reserve = x.reserve
	}
	if err := parse(&x.request, x.body); err != nil {
		x.fail(err)
		return
	}
	a.answer(x)
}

// form answers an endpoint that takes a form with files.
func (a *API) form(w http.ResponseWriter, r *http.Request, service schema.ServiceType, parse func(*schema.Request, *schema.Form) error) {
	x := a.begin(w, r, service)
	defer a.end(x)
	if !a.admit(x) || !a.identify(x) {
		return
	}
	form := x.readForm(int64(a.current.Load().Limits.MultipartBody))
	if form == nil {
		return
	}
	x.call.Ready = x.call.At(time.Now())
	if err := parse(&x.request, form); err != nil {
		x.fail(err)
		return
	}
	a.answer(x)
}
