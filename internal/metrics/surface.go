package metrics

import "strings"

// surface is a part of the HTTP interface.
type surface uint8

const (
	surfaceV1 surface = iota
	surfaceManage
	surfaceActuator
	surfaceOther

	surfaceCount = int(surfaceOther) + 1
)

var surfaceNames = [surfaceCount]string{"/v1", "/api", "/actuator", "other"}

// outcomeCount counts the classes of HTTP statuses: 1xx to 5xx, and none.
const outcomeCount = 6

var outcomeNames = [outcomeCount]string{"UNKNOWN", "INFORMATIONAL", "SUCCESS", "REDIRECTION", "CLIENT_ERROR", "SERVER_ERROR"}

func surfaceOf(path string) surface {
	switch {
	case strings.HasPrefix(path, "/v1/"):
		return surfaceV1
	case strings.HasPrefix(path, "/api/"):
		return surfaceManage
	case strings.HasPrefix(path, "/actuator"):
		return surfaceActuator
	}
	return surfaceOther
}
