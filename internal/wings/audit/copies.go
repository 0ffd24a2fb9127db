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

// courier brings records to a target. It remembers the last ones in a file, so that none is left
// out while the target or the gateway is unavailable.
type courier struct {
	*Writer
	target Target
	// at has the last record of each chain that was sent, and heads the signature of the last head.
	at        map[string]position
	heads     map[string]string
	isFailing bool
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

// sendSome sends the next records of each chain, or the last head if all records were sent.
func (k *courier) sendSome(ctx context.Context) (more bool, err error) {
	type end struct {
		name string
		at   position
		head Head
	}
	var ends []end
	k.mu.Lock()
	for _, c := range k.chains {
		if c.isOpen {
			ends = append(ends, end{c.name, position{Chain: c.number, Seq: c.last.Seq}, c.signed})
		}
	}
	k.mu.Unlock()
	if k.at == nil {
		k.begin()
	}
	for _, e := range ends {
		if _, known := k.at[e.name]; !known {
			k.at[e.name] = e.at // a new target gets the records from now on
			if err := k.save(); err != nil {
				return false, err
			}
		}
		isMore, err := k.sendChain(ctx, e.name, e.at, e.head)
		if err != nil {
			return false, err
		}
		more = more || isMore
	}
	return more, nil
}

func (k *courier) sendChain(ctx context.Context, name string, end position, head Head) (more bool, err error) {
	at := k.at[name]
	if at == end {
		if head.Signature == k.heads[name] || head.Seq == 0 {
			return false, nil
		}
		if err = k.target.Send(ctx, []Message{{timeOf(head.Time), "head", string(canonical(head))}}); err == nil {
			k.heads[name] = head.Signature
		}
		return false, err
	}
	records, err := k.options.Store.After(ctx, name, at.Chain, at.Seq, mostSent)
	if err != nil {
		return false, err
	}
	if len(records) == 0 {
		if at.Chain >= end.Chain {
			k.at[name] = end // there was a restore to an earlier time
			return false, nil
		}
		k.at[name] = position{Chain: at.Chain + 1}
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
	k.at[name] = position{Chain: at.Chain, Seq: records[len(records)-1].Seq}
	return true, k.save()
}

// begin reads the position at which sending ended.
func (k *courier) begin() {
	k.at, k.heads = map[string]position{}, map[string]string{}
	if text, err := k.options.Dir.Read(k.file()); err == nil && json.Unmarshal(text, &k.at) != nil {
		k.at = map[string]position{}
	}
}

func (k *courier) save() error {
	text, err := json.Marshal(k.at, json.Deterministic(true))
	if err != nil {
		return err
	}
	return k.options.Dir.Write(k.file(), text)
}

func timeOf(stamp string) time.Time {
	t, _ := time.Parse(timeFormat, stamp) // the chain made it
	return t
}
