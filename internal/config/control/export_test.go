package control

import (
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
)

// What the tests outside of the package look at; they are outside because the
// stores, which they need, import this package.

func SourceOf(doc *config.Document) string                    { return sourceOf(doc) }
func Summarize(found []Difference) string                     { return differences.Summarize(found) }
func Validate(doc *config.Document) error                     { return validate(doc) }
func AsStored(doc *config.Document) (*config.Document, error) { return asStored(doc) }
func (c *Control) Has(number int) bool                        { return c.has(number) }

const LongestWait = maxRetryDelay
