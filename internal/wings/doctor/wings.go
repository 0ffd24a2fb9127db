package doctor

import "context"

// wings asks the questions that wings bring.
func (e *examination) wings(context.Context) (findings []Finding) {
	report := func(level, area, message, fix string) {
		findings = append(findings, Finding{Level: Level(level), Area: area, Message: message, Fix: fix})
	}
	e.Document.Examine(report)
	e.Document.Security.Examine(e.Document.Server.PublicURL, report)
	return findings
}
