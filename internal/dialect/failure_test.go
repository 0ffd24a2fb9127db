package dialect

import (
	"strings"
	"testing"
)

// TestReadFailureFindsTheMessage goes through the shapes of errors that
// backends send; see also the transcripts with a status.
func TestReadFailureFindsTheMessage(t *testing.T) {
	for body, want := range map[string]string{
		``:    "",
		" \n": "",
		`{"error":{"message":"a","type":"t","param":null,"code":1}}`: "a",
		`{"error":"a"}`:                        "a",
		`{"error":{"error":{"message":"a"}}}`:  "a",
		`{"error":{"code":5}}`:                 `{"code":5}`,
		`{"error":null,"message":"a"}`:         "a",
		`{"message":"a"}`:                      "a",
		`{"message":["a","b"]}`:                `["a","b"]`,
		`{"detail":"a"}`:                       "a",
		`{"detail":{"msg":"a"}}`:               "a",
		`{"detail":[{"loc":["x"],"msg":"a"}]}`: `[{"loc":["x"],"msg":"a"}]`,
		`[{"error":{"message":"a"}}]`:          "a",
		`{"object":"error","message":"a"}`:     "a",
		`{"msg":"a"}`:                          "a",
		`{"error":"first","error":"second"}`:   "first",
		`"a \"quoted\" text"`:                  `a "quoted" text`,
		`{"code":7}`:                           `{"code":7}`,
		`null`:                                 "null",
		`plain text`:                           "plain text",
		`{"error":`:                            `{"error":`,
		`<html><body>x</body></html>`:          "(an HTML page)",
		" <!doctype html>":                     "(an HTML page)",
		"\xff\xfe":                             "",
	} {
		got := ReadFailure(418, []byte(body))
		if got.Message != want || got.Status != 418 {
			t.Errorf("%s: status %d, message %q, want %q", body, got.Status, got.Message, want)
		}
	}
}

func TestFailureSaysNothingOfTheBackendsWords(t *testing.T) {
	for status, want := range map[int]string{
		200: "the backend reported an error inside its answer",
		503: "the backend answered with status 503",
	} {
		if got := (&Failure{Status: status, Message: "secret"}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReadFailureFindsTheCodeInDetails(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"error":{"message":"m","details":{"error_code":"thread_not_found"}}}`:                           "thread_not_found",
		`{"error":{"message":"m","details":{"error_code":"Bearer sk-1"}}}`:                                "",
		`{"error":{"message":"m","details":{"error_code":"` + strings.Repeat("x", longestCode+1) + `"}}}`: "",
		`{"error":{"message":"m","details":{"error_code":7}}}`:                                            "",
		`{"error":{"message":"m","details":["error_code"]}}`:                                              "",
		`{"error":"m","details":{"error_code":"elsewhere"}}`:                                              "",
	} {
		if got := ReadFailure(404, []byte(body)).DetailCode; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
