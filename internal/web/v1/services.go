package v1

import (
	"net/http"

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
	err := a.admit(x)
	if err == nil {
		err = x.readJSON(parse)
	}
	a.answer(x, err)
}

// form answers an endpoint that takes a form with files.
func (a *API) form(w http.ResponseWriter, r *http.Request, service schema.ServiceType, parse func(*schema.Request, *schema.Form) error) {
	x := a.begin(w, r, service)
	defer a.end(x)
	err := a.admit(x)
	if err == nil {
		err = x.readForm(parse)
	}
	a.answer(x, err)
}
