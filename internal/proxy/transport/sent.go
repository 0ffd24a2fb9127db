package transport

// Sent reports whether the request has left whole: its body may change again.
func (r *Response) Sent() bool { return r.up == nil || r.up.finished() }
