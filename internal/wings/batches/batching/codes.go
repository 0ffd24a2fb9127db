package batching

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The codes of the errors of this feature.
const (
	codeNoFile  = "file_not_found"
	codeNoBatch = "batch_not_found"
	codeOff     = "batches_off"
	codeFull    = "storage_limit_reached"
)

func init() {
	schema.Declare(
		schema.ErrorClass{Code: codeNoFile, Type: schema.TypeNotFound,
			Status: http.StatusNotFound, Result: schema.ResultInvalid},
		schema.ErrorClass{Code: codeNoBatch, Type: schema.TypeNotFound,
			Status: http.StatusNotFound, Result: schema.ResultInvalid},
		schema.ErrorClass{Code: codeOff, Type: schema.TypeNotFound,
			Status: http.StatusNotFound, Result: schema.ResultInvalid},
		schema.ErrorClass{Code: codeFull, Type: schema.TypeInvalidRequest,
			Status: http.StatusBadRequest, Result: schema.ResultInvalid},
	)
}
