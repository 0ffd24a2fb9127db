package fleet

// maxNews is how many blocks wait to be told.
const maxNews = 8 << 10

// news holds the prompts that were sent since the last message, in the order of
// sending.
type news struct {
	sendings []sending
	blocks   []Block             // of all of them, one after the other
	last     map[Block]*Instance // where prompts went, by their last blocks
	since    float64             // when the last message was made
	dropped  int64               // prompts that no message had

	wasPending bool // the last message told of something that is pending
}

// sending is a prompt that was sent to an instance.
type sending struct {
	instance   *Instance
	start, end int // in the blocks
}

// add adds a prompt that was sent to an instance. The same prompt to the same instance
// is told once.
func (n *news) add(i *Instance, prompt []Block) {
	if len(prompt) == 0 || n.last[prompt[len(prompt)-1]] == i {
		return
	}
	if n.last == nil {
		n.last = map[Block]*Instance{}
	}
	n.last[prompt[len(prompt)-1]] = i
	if len(n.blocks)+len(prompt) > maxNews {
		n.dropOldest()
	}
	start := len(n.blocks)
	n.blocks = append(n.blocks, prompt...)
	n.sendings = append(n.sendings, sending{i, start, len(n.blocks)})
}

// dropOldest drops the older half.
func (n *news) dropOldest() {
	gone := (len(n.sendings) + 1) / 2
	n.dropped += int64(gone)
	clear(n.last)
	offset := n.sendings[gone-1].end
	n.blocks = append(n.blocks[:0], n.blocks[offset:]...)
	n.sendings = append(n.sendings[:0], n.sendings[gone:]...)
	for k := range n.sendings {
		n.sendings[k].start -= offset
		n.sendings[k].end -= offset
	}
}

// reset begins the next message.
func (n *news) reset(now float64) {
	clear(n.last)
	clear(n.sendings)
	n.sendings, n.blocks, n.since = n.sendings[:0], n.blocks[:0], now
}
