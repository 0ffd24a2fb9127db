package say

import "errors"

// failure is an error that is a sentence.
type failure struct {
	said  Sentence
	cause error
}

func (f *failure) Error() string  { return f.said.String() }
func (f *failure) Unwrap() error  { return f.cause }
func (f *failure) Said() Sentence { return f.said }

// Error returns an error that says the sentence of a code.
func Error(code Code, pairs ...any) error { return &failure{said: New(code, pairs...)} }

// Err returns an error that says the sentence, nil where it says nothing.
func (s Sentence) Err() error {
	if !s.Is() {
		return nil
	}
	return &failure{said: s}
}

// Wrap returns an error that says the sentence of a code and wraps another error.
func Wrap(cause error, code Code, pairs ...any) error { return &failure{New(code, pairs...), cause} }

// About returns an error about a field of a request or a setting.
func About(field string, err error) error {
	return &failure{From(err).About(field), err}
}

// From returns the sentence of an error. The text of an error that has no sentence, such as
// one of the operating system, becomes a Plain one.
func From(err error) Sentence {
	if err == nil {
		return Sentence{}
	}
	// The sentence of a wrapped error says less than the text of the error around it.
	if said, says := err.(interface{ Said() Sentence }); says {
		return said.Said()
	}
	var within interface{ Said() Sentence }
	if errors.As(err, &within) && within.Said().String() == err.Error() {
		return within.Said()
	}
	return Plain(err.Error())
}
