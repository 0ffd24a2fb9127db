// Package fleet decides which of the instances of a model answers a request soonest.
package fleet
