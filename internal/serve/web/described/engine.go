package described

type tokenizeRequest struct {
	Model            modelName `json:"model" required:"true" example:"demo-chat"`
	Prompt           string    `json:"prompt" doc:"This or messages must be given."`
	Messages         []extra   `json:"messages" doc:"Only for backends that are vLLM."`
	AddSpecialTokens bool      `json:"add_special_tokens" doc:"True if it is left out."`
	ReturnTokenStrs  bool      `json:"return_token_strs"`
	more
}

type tokenized struct {
	Count       int64       `json:"count"`
	Tokens      []int64     `json:"tokens"`
	MaxModelLen int64       `json:"max_model_len,omitzero" doc:"Only of backends that are vLLM."`
	TokenStrs   *tokenTexts `json:"token_strs,omitzero"`
	more
}

type tokenTexts []string

type detokenizeRequest struct {
	Model  modelName `json:"model" required:"true" example:"demo-chat"`
	Tokens []int64   `json:"tokens" required:"true"`
	more
}

type detokenized struct {
	Prompt string `json:"prompt"`
	more
}

type scoreRequest struct {
	Model modelName                `json:"model" required:"true"`
	Text1 either[string, []string] `json:"text_1" doc:"One text, or as many as text_2 has; vLLM's other names work."`
	Text2 either[string, []string] `json:"text_2"`
	User  string                   `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	more
}

type inputRequest struct {
	Model modelName                `json:"model" required:"true"`
	Input either[string, []string] `json:"input" doc:"One text, or several; this or messages must be given."`
	User  string                   `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	more
}

type engineList struct {
	ID     string  `json:"id,omitzero"`
	Object string  `json:"object,omitzero"`
	Model  string  `json:"model,omitzero"`
	Data   []extra `json:"data"`
	Usage  extra   `json:"usage,omitzero"`
	more
}

type infillRequest struct {
	Model       modelName `json:"model" required:"true"`
	InputPrefix string    `json:"input_prefix" required:"true"`
	InputSuffix string    `json:"input_suffix" required:"true"`
	InputExtra  []extra   `json:"input_extra" doc:"Further files, each with filename and text."`
	Prompt      string    `json:"prompt"`
	NPredict    int64     `json:"n_predict"`
	Stream      bool      `json:"stream"`
	User        string    `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	more
}

type infilled struct {
	Content         string `json:"content"`
	Model           string `json:"model,omitzero"`
	TokensEvaluated int64  `json:"tokens_evaluated,omitzero"`
	TokensPredicted int64  `json:"tokens_predicted,omitzero"`
	Stop            bool   `json:"stop,omitzero"`
	more
}
