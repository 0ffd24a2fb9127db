package engine

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// The fields of requests of each endpoint.
var (
	TokenizeFields   = schema.FieldsOf(tokenizeRequest{})
	DetokenizeFields = schema.FieldsOf(detokenizeRequest{})
	ScoreFields      = schema.FieldsOf(scoreRequest{})
	InputFields      = schema.FieldsOf(inputRequest{}) // of classes and pooled vectors
	InfillFields     = schema.FieldsOf(infillRequest{})
)

type tokenizeRequest struct {
	Model            shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	Prompt           string          `json:"prompt" doc:"This or messages must be given."`
	Messages         []shape.Object  `json:"messages" doc:"Only for backends that are vLLM."`
	AddSpecialTokens bool            `json:"add_special_tokens" doc:"True if it is left out."`
	ReturnTokenStrs  bool            `json:"return_token_strs"`
	shape.More
}

type detokenizeRequest struct {
	Model  shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	Tokens []int64         `json:"tokens" required:"true"`
	shape.More
}

// counted holds the members that name the model and the user of a request.
type counted struct {
	Model shape.ModelName `json:"model" required:"true"`
	User  string          `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	shape.More
}

type scoreRequest struct {
	counted
	Text1     shape.Texts `json:"text_1" doc:"One text, or as many as text_2 has; vLLM's other names work."`
	Text2     shape.Texts `json:"text_2"`
	Queries   shape.Any   `json:"queries"`
	Documents shape.Any   `json:"documents"`
	Items     shape.Any   `json:"items"`
	Data1     shape.Any   `json:"data_1"`
	Data2     shape.Any   `json:"data_2"`
}

type inputRequest struct {
	counted
	Input    shape.Texts `json:"input" doc:"One text, or several; this or messages must be given."`
	Messages shape.Any   `json:"messages"`
}

type infillRequest struct {
	counted
	InputPrefix string         `json:"input_prefix" required:"true"`
	InputSuffix string         `json:"input_suffix" required:"true"`
	InputExtra  []shape.Object `json:"input_extra" doc:"Further files, each with filename and text."`
	Prompt      string         `json:"prompt"`
	NPredict    int64          `json:"n_predict"`
	Stream      bool           `json:"stream"`
}
