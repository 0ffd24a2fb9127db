package reply

import "testing"

func TestTheFiguresOfPromptsThatAreTooLong(t *testing.T) {
	for words, want := range map[string][2]int64{
		"This model's maximum context length is 1024 tokens. However, you requested 5006 tokens (6 in the messages, 5000 in the completion).": {5006, 1024},
		"prompt is too long: 213,462 tokens > 200,000 maximum":                                                                                {213462, 200000},
		"input length and `max_tokens` exceed context limit: 195000 + 20000 > 200000":                                                         {215000, 200000},
		"The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).":                                             {1048600, 1048576},
		"request (5004 tokens) exceeds the available context size (2048 tokens), try increasing it":                                           {5004, 2048},
		"The decoder prompt (length 5004) is longer than the maximum model length of 2048.":                                                   {5004, 2048},
		"This model's maximum prompt length is 131072 but the request contains 140000 tokens.":                                                {140000, 131072},
		"This model's maximum context length is 8192 tokens.":                                                                                 {0, 8192},
		"the input length exceeds the context length":                                                                                         {0, 0},
		"": {0, 0},
	} {
		if tokens, window := lengths(words); tokens != want[0] || window != want[1] {
			t.Errorf("%q: got %d tokens, window %d, want %v", words, tokens, window, want)
		}
	}
}
