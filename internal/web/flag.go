package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

var errSwitch = errors.New("want true or false")

// Switch is the type of a query parameter that Flag reads.
type Switch bool

// Flag reads a boolean query parameter. The case of its name does not matter, a
// parameter without a value is true, and of several values one that is true is enough:
// a misspelt ?dryRun must not become a change.
func Flag(r *http.Request, name string) (bool, error) {
	on := false
	for key, values := range r.URL.Query() {
		if !strings.EqualFold(key, name) {
			continue
		}
		for _, value := range values {
			this, err := strconv.ParseBool(value)
			if err != nil && value != "" {
				return false, errSwitch
			}
			on = on || this || value == ""
		}
	}
	return on, nil
}
