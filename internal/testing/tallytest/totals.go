package tallytest

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Told returns the number of calls of Tell.
func (m *Model) Told() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told
}

// News returns how many news were told since the store lost its data.
func (m *Model) News() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

// Tell stores totals like redistally.
func (m *Model) Tell(sheets []tally.Sheet, isNews bool) []map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told++
	if isNews {
		m.news++
	}
	all := make([]map[string]string, len(sheets))
	for i, sheet := range sheets {
		if m.sheets[sheet.Name] == nil {
			m.sheets[sheet.Name] = map[string]string{}
		}
		for _, total := range sheet.Totals {
			known := m.sheets[sheet.Name][total.Writer]
			if known == total.Instead {
				known = ""
			}
			m.sheets[sheet.Name][total.Writer] = replace(known, total.Numbers, sheet.IsOrdered)
		}
		if sheet.IsRead {
			all[i] = maps.Clone(m.sheets[sheet.Name])
		}
	}
	return all
}

// replace returns the text to keep of a writer that first sent known and then given.
func replace(known, given string, isOrdered bool) string {
	before, numbers := strings.Fields(known), strings.Fields(given)
	if isOrdered {
		if len(before) == 0 || isLess(before[0], numbers[0]) {
			return given
		}
		return known
	}
	for i, number := range numbers {
		if i < len(before) && isLess(number, before[i]) {
			numbers[i] = before[i]
		}
	}
	return strings.Join(numbers, " ")
}

func isLess(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// Tell is the script of redistally for sheets.
func (c *Member) Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	if err := c.reach(ctx); err != nil {
		return nil, err
	}
	all := c.model.Tell(sheets, isNews)
	return all, errors.Join(ctx.Err(), c.hear(ctx))
}

// IsSpread reports false: this store loses all of its data at once.
func (c *Member) IsSpread() bool { return false }

// Put replaces the text of a writer in the store, like somebody who writes to it by hand.
func (m *Model) Put(sheet, writer, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sheets[sheet] == nil {
		m.sheets[sheet] = map[string]string{}
	}
	if m.sheets[sheet][writer] = text; text == "" {
		delete(m.sheets[sheet], writer)
	}
}
