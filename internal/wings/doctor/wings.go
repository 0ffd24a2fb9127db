package doctor

import "context"

// wings asks the questions that wings bring.
func (e *examination) wings(context.Context) (findings []Finding) {
	e.Document.Examine(func(level, area, message, fix string) {
		findings = append(findings, Finding{Level: Level(level), Area: area, Message: message, Fix: fix})
	})
	return findings
}
