package simulator

import "net/http"

// azure is the dialect of Azure OpenAI, which is OpenAI's except for the address, the key
// and the texts of errors.
type azure struct{ openAI }

// errorBody returns an error, which has its code first and no type.
func (azure) errorBody(_ int, problem apiError) []byte {
	out := appendString([]byte(`{"error":{"code":`), problem.code)
	out = appendString(append(out, `,"message":`...), problem.message)
	return append(out, "}}"...)
}

// key returns the credential of a call: a key of the resource in the header Api-Key, or a
// token in the header Authorization.
func (azure) key(x *exchange) string {
	r := x.request
	if key := r.Header.Get("Api-Key"); key != "" {
		return key
	}
	return bearer(r)
}

// azureServices are the services of Azure OpenAI by the ends of their paths.
var azureServices = map[string]service{
	"chat/completions":     answerChat,
	"completions":          answerCompletions,
	"embeddings":           answerEmbeddings,
	"audio/speech":         answerSpeech,
	"audio/transcriptions": answerTranscription,
	"audio/translations":   answerTranscription,
	"images/generations":   answerImages,
	"images/edits":         answerImageEdit,
}

// answerAzure answers a request that names its model in the body.
func answerAzure(x *exchange) {
	if answer, found := azureServices[x.request.PathValue("service")]; found {
		answer(x)
	} else {
		answerUnknownPath(x)
	}
}

// answerDeployment answers a request to a deployment, which must exist, with the version of
// the API.
func answerDeployment(x *exchange) {
	switch deployment := x.request.PathValue("deployment"); {
	case x.request.URL.Query().Get("api-version") == "":
		x.fail(http.StatusNotFound, apiError{code: "404", message: "Resource not found"})
	case !x.backend.knows(deployment):
		x.fail(http.StatusNotFound, apiError{
			code: "DeploymentNotFound",
			message: "The API deployment for this resource does not exist. If you created the deployment within the " +
				"last 5 minutes, please wait a moment and try again.",
		})
	default:
		answerAzure(x)
	}
}
