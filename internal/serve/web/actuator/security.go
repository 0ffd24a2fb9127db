package actuator

type securityDetails struct {
	Warning string `json:"warning"`
}

// securityHealth returns a component with a warning if security.allow-open is set.
func (a *API) securityHealth() (open health, isOpen bool) {
	settings := a.options.Document.Security
	if settings.Enabled || !settings.AllowOpen {
		return health{}, false
	}
	return health{Status: up, Details: securityDetails{
		Warning: "security.allow-open is set: anyone who reaches this address can use and change everything",
	}}, true
}
