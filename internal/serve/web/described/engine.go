package described

import "github.com/patchbay-ai/patchbay/internal/request/shape"

type tokenized struct {
	Count       int64       `json:"count"`
	Tokens      []int64     `json:"tokens"`
	MaxModelLen int64       `json:"max_model_len,omitzero" doc:"Only of backends that are vLLM."`
	TokenStrs   *tokenTexts `json:"token_strs,omitzero"`
	shape.More
}

type tokenTexts []string

type detokenized struct {
	Prompt string `json:"prompt"`
	shape.More
}

type engineList struct {
	ID     string         `json:"id,omitzero"`
	Object string         `json:"object,omitzero"`
	Model  string         `json:"model,omitzero"`
	Data   []shape.Object `json:"data"`
	Usage  shape.Object   `json:"usage,omitzero"`
	shape.More
}

type infilled struct {
	Content         string `json:"content"`
	Model           string `json:"model,omitzero"`
	TokensEvaluated int64  `json:"tokens_evaluated,omitzero"`
	TokensPredicted int64  `json:"tokens_predicted,omitzero"`
	Stop            bool   `json:"stop,omitzero"`
	shape.More
}
