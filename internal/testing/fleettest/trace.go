package fleettest

import (
	"encoding/json"
	"fmt"
	"io"
)

// ReadTrace reads a trace in the format of Mooncake: a JSON object in each line with the
// members timestamp (milliseconds), input_length, output_length and hash_ids. Such traces
// round times: many requests have the same one. ReadTrace spreads them evenly until the
// next time that occurs.
func ReadTrace(from io.Reader, block int) ([]*Request, error) {
	type row struct {
		Timestamp    float64  `json:"timestamp"`
		InputLength  int      `json:"input_length"`
		OutputLength int      `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}
	var rows []row
	for decoder := json.NewDecoder(from); ; {
		var r row
		if err := decoder.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	const lastStep = 3000.0
	var all []*Request
	for start := 0; start < len(rows); {
		end := start
		for end < len(rows) && rows[end].Timestamp == rows[start].Timestamp {
			end++
		}
		step := lastStep
		if end < len(rows) {
			step = rows[end].Timestamp - rows[start].Timestamp
		}
		for k, r := range rows[start:end] {
			at := r.Timestamp + float64(k)/float64(end-start)*step
			all = append(all, &Request{At: at / 1000, Tokens: r.InputLength, Outputs: r.OutputLength,
				Blocks: r.HashIDs[:min(len(r.HashIDs), r.InputLength/block)], Model: "m"})
		}
		start = end
	}
	return all, nil
}
