package balance

import "github.com/patchbay-ai/patchbay/internal/request/schema"

// Goal is the time that the strategy least_time makes short.
type Goal = schema.Choice[goal]

type goal struct{}

func (goal) Names() []string { return []string{"first_token", "answer"} }

// The goals. The zero value is the default.
const (
	ToFirstToken Goal = iota
	ToAnswer          // to the end of the answer
)
