package transport

// nextChunked delivers as many chunks as have come and fit, so that a burst of
// events costs one call; it waits only when it has nothing to deliver.
func (r *Response) nextChunked(p []byte) (n int, err error) {
	chunks := &r.body.chunks
	for {
		if chunks.Left > 0 {
			if n == len(p) || n > 0 && r.conn.r == r.conn.w {
				return n, nil
			}
			m, err := r.take(p[n:min(int64(len(p)), int64(n)+chunks.Left)])
			if err != nil {
				return n, unexpectedEOF(err)
			}
			n += m
			chunks.Left -= int64(m)
			continue
		}
		moved, err := r.step()
		if err != nil {
			return n, err
		}
		if moved {
			continue
		}
		if n > 0 {
			return n, nil
		}
		if err := r.fill(); err != nil {
			return 0, unexpectedEOF(err)
		}
	}
}

// step consumes the next piece of framing; moved is false when it has not come
// whole. io.EOF is the end of the body.
func (r *Response) step() (moved bool, err error) {
	taken, err := r.body.chunks.Step(r.conn.buffered())
	r.conn.r += taken
	r.body.done = r.body.chunks.Ended()
	if err != nil && !r.body.done {
		err = flaw(err.Error())
	}
	return taken > 0, err
}
