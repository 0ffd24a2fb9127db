// Package metrics counts what the gateway does and shows the counts to scrapers
// and people.
//
// Counts are exact. They are atomics that belong to the living state: those of
// an instance travel with it from table to table, those of a service type live
// in the Registry. A request adds to them once, when it has ended, without a
// lock, a lookup or an allocation. The only switch on this path is Enabled; what
// was counted before it was turned off is still there afterwards. Prefix, custom
// tags and categories are applied by the Exposition, so they never cost a count.
package metrics
