package web

import "net/http"

// Envelope is the shape of the management API's replies.
type Envelope struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Data    any    `json:"data"`
	// ErrorCode is for the few errors that programs tell apart.
	ErrorCode string `json:"errorCode,omitzero"`
}

// Succeed answers with data in an envelope.
func Succeed(w http.ResponseWriter, status int, message string, data any) {
	WriteJSON(w, status, Envelope{Success: true, Message: message, Data: data})
}

// Refuse answers with an error in an envelope.
func Refuse(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Envelope{Message: message})
}
