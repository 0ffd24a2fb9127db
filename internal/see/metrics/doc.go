// Package metrics counts the gateway's work and shows the counts to scrapers and people.
//
// Counts are exact. They are atomics that belong to the living state: the counts of an
// instance travel with it from table to table, those of a service type live in the
// Registry. A request adds to them once, when it has ended, without a lock, a lookup or an
// allocation. The only switch on this path is Enabled; turning it off keeps the earlier
// counts. The Exposition applies prefix, custom tags and categories, so they never cost a
// count.
package metrics
