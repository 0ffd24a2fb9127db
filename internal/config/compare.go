package config

// Differences names the sections in which both documents differ.
func (d *Document) Differences(other *Document) []string {
	var names []string
	note := func(name string, same bool) {
		if !same {
			names = append(names, name)
		}
	}
	note("server", d.Server.equal(other.Server))
	note("limits", d.Limits == other.Limits)
	note("services", EqualServices(d.Services, other.Services))
	note("monitoring", d.Monitoring.Equal(other.Monitoring))
	note("quota", d.Quota.Equal(other.Quota))
	note("responses", d.Responses == other.Responses)
	note("store", d.Store == other.Store)
	note("redis", d.Redis == other.Redis)
	note("security", d.Security.Equal(other.Security))
	note("log", d.Log == other.Log)
	note("telemetry", d.Telemetry.Equal(other.Telemetry))
	note("prices", d.Prices.Equal(other.Prices))
	return names
}
