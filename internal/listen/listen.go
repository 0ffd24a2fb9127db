// Package listen is where the gateway can be reached: the addresses on which it
// listens, and the encryption of the connections with clients.
package listen
