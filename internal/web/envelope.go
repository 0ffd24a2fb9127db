package web

import "net/http"

// Envelope is the shape of the management API's replies.
type Envelope struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// Fault is an error of the management API.
type Fault struct {
	Success bool   `json:"success" doc:"Always false."`
	Message string `json:"message"`
	// Data names the fields that are wrong; it is nil where there are none to name.
	Data *FaultData `json:"data" doc:"Null where no field is wrong."`
	// ErrorCode is for the few errors that programs tell apart.
	ErrorCode string `json:"errorCode,omitzero" enum:"RESTART_REQUIRED,INVALID_REQUEST" doc:"Of the quota ledger."`
}

// FaultData is what an error tells beside its message.
type FaultData struct {
	Errors []FieldError `json:"errors"`
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field" example:"instance.baseUrl"`
	Message string `json:"message"`
}

// NewFaultData returns the data of an error with these fields, nil without any.
func NewFaultData(fields []FieldError) *FaultData {
	if len(fields) == 0 {
		return nil
	}
	return &FaultData{fields}
}

// Succeed answers with data in an envelope.
func Succeed(w http.ResponseWriter, status int, message string, data any) {
	WriteJSON(w, status, Envelope{Success: true, Message: message, Data: data})
}

// Refuse answers with an error in an envelope.
func Refuse(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Fault{Message: message})
}
