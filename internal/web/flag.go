package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

var errSwitch = errors.New("want true or false")

// Switch is the type of a parameter of the query that Flag reads.
type Switch bool

// Flag reads a switch of the query, whatever the case of its name; naming it
// alone turns it on. Given several times, one that is on is enough: a dry run
// must not become a change because of a spelling.
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
