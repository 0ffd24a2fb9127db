package web

import "net/http"

// Envelope is the shape of the management API's replies.
type Envelope struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// Fault is an error of the management API. Its data is null.
type Fault struct {
	Success bool   `json:"success" doc:"Always false."`
	Message string `json:"message"`
	Data    any    `json:"data" doc:"Always null."`
	// ErrorCode is for the few errors that programs tell apart.
	ErrorCode string `json:"errorCode,omitzero" enum:"RESTART_REQUIRED,INVALID_REQUEST" doc:"Of the quota ledger."`
}

// Succeed answers with data in an envelope.
func Succeed(w http.ResponseWriter, status int, message string, data any) {
	WriteJSON(w, status, Envelope{Success: true, Message: message, Data: data})
}

// Refuse answers with an error in an envelope.
func Refuse(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Fault{Message: message})
}
