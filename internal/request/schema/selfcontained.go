package schema

import "github.com/patchbay-ai/patchbay/internal/request/jsonscan"

// IsSelfContained reports whether the answer to a request depends on no earlier one, as far
// as its fields tell, and nothing of it is kept for later ones.
func (r *Request) IsSelfContained() bool {
	store := r.Field("store").Kind()
	switch r.Door {
	case DoorResponses: // they are stored unless the client says no
		if store != jsonscan.False {
			return false
		}
		for _, name := range [...]string{"previous_response_id", "conversation", "background"} {
			if value := r.Field(name); value.Given() && value.Kind() != jsonscan.False {
				return false
			}
		}
	case DoorChat:
		return store != jsonscan.True
	}
	return true
}
