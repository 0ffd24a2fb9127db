package quota

import "context"

// Usage returns what EachUsage visits.
func (l *Ledger) Usage(ctx context.Context, q UsageQuery) (usage []Usage, enabled bool, err error) {
	enabled, err = l.EachUsage(ctx, q, func(u Usage) bool {
		usage = append(usage, u)
		return true
	})
	return usage, enabled, err
}
