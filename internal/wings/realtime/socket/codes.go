package socket

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The codes of the errors of this feature.
const (
	codeTooOld = "websocket_connection_limit_reached"
)

func init() {
	schema.Declare(
		schema.ErrorClass{Code: codeTooOld, Type: schema.TypeInvalidRequest,
			Status: http.StatusBadRequest, Result: schema.ResultInvalid},
	)
}
