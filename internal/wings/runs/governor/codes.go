package governor

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The codes of the errors of this feature.
const (
	codeLimit   = "run_limit_reached"
	codeLoops   = "run_loops"
	codeEnded   = "run_ended"
	codeTooMany = "too_many_runs"
)

func init() {
	schema.Declare(
		schema.ErrorClass{Code: codeLimit, Type: schema.TypeInvalidRequest,
			Status: http.StatusBadRequest, Result: schema.ResultRateLimited},
		schema.ErrorClass{Code: codeLoops, Type: schema.TypeInvalidRequest,
			Status: http.StatusBadRequest, Result: schema.ResultRateLimited},
		schema.ErrorClass{Code: codeEnded, Type: schema.TypeInvalidRequest,
			Status: http.StatusBadRequest, Result: schema.ResultRateLimited, Stops: true},
		schema.ErrorClass{Code: codeTooMany, Type: schema.TypeRateLimit,
			Status: http.StatusTooManyRequests, Result: schema.ResultRateLimited},
	)
}
