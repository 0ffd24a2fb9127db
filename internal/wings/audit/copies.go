package audit

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
)

// Target is a place beside the store that gets a copy of every record and head.
type Target struct {
	Name string
	// Send sends messages in their order. After an error all of them are sent again.
	Send  func(ctx context.Context, messages []Message) error
	Close func()
}

// Message is a record or a head on its way to a target.
type Message struct {
	Time time.Time
	Kind string // "record" or "head"
	Text string // canonical JSON
}

// courier brings records to a target. It remembers the last one in a file, so that none is left
// out while the target or the gateway is away.
type courier struct {
	*Chain
	target Target
	// at is the last record that was sent, and head the signature of the last head.
	at        position
	head      string
	isFailing bool
}

type position struct {
	Chain int   `json:"chain"`
	Seq   int64 `json:"seq"`
}

const (
	// sendEvery is the time between two looks for new records, and sendTime bounds a look.
	sendEvery = time.Second
	sendTime  = 10 * time.Second
	mostSent  = 100
)

func (k *courier) file() string { return "sent-" + k.target.Name + ".json" }

// run sends records and heads until the context ends.
func (k *courier) run(ctx context.Context) {
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	for {
		k.send(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// send sends everything that was not sent.
func (k *courier) send(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	for {
		more, err := k.sendSome(ctx)
		if err != nil && !k.isFailing && ctx.Err() == nil {
			k.options.Log.Warn("copies of the audit cannot be sent; they are sent later", "to", k.target.Name, "error",
				err)
		}
		if err == nil && k.isFailing && !more {
			k.options.Log.Info("copies of the audit are sent again", "to", k.target.Name)
		}
		k.isFailing = err != nil || k.isFailing && more
		if err != nil || !more {
			return
		}
	}
}

// sendSome sends the next records, or the last head where all records were sent.
func (k *courier) sendSome(ctx context.Context) (more bool, err error) {
	k.mu.Lock()
	isOpen, end, head := k.isOpen, position{k.number, k.last.Seq}, k.signed
	k.mu.Unlock()
	if !isOpen {
		return false, nil
	}
	if k.at == (position{}) {
		k.begin(end)
	}
	if k.at == end {
		if head.Signature == k.head || head.Seq == 0 {
			return false, nil
		}
		if err = k.target.Send(ctx, []Message{{timeOf(head.Time), "head", string(canonical(head))}}); err == nil {
			k.head = head.Signature
		}
		return false, err
	}
	records, err := k.options.Store.After(ctx, k.options.Gateway, k.at.Chain, k.at.Seq, mostSent)
	if err != nil {
		return false, err
	}
	if len(records) == 0 {
		if k.at.Chain >= end.Chain {
			k.at = end // there was a restore to an earlier time
			return false, nil
		}
		k.at = position{k.at.Chain + 1, 0}
		return true, nil
	}
	var messages []Message
	for i := range records {
		line := records[i].Line()
		messages = append(messages, Message{timeOf(records[i].Time), "record", string(line[:len(line)-1])})
	}
	if err := k.target.Send(ctx, messages); err != nil {
		return false, err
	}
	k.at.Seq = records[len(records)-1].Seq
	return true, k.save()
}

// begin reads where sending ended. A new target gets the records from now on.
func (k *courier) begin(end position) {
	k.at = end
	if text, err := k.options.Dir.Read(k.file()); err == nil {
		var at position
		if json.Unmarshal(text, &at) == nil && at.Chain > 0 {
			k.at = at
		}
		return
	}
	if err := k.save(); err != nil {
		k.at = position{}
	}
}

func (k *courier) save() error {
	text, err := json.Marshal(k.at)
	if err != nil {
		return err
	}
	return k.options.Dir.Write(k.file(), text)
}

func timeOf(stamp string) time.Time {
	t, _ := time.Parse(timeFormat, stamp) // the chain made it
	return t
}
