package fleet

// hintShare is the share of a prompt that counts as cached at the instance of the same
// conversation, if nothing else is known.
const hintShare = 0.5

// matcher finds how much of one prompt instances have cached.
type matcher struct {
	prompt *Prompt
	index  *index
	hint   uint32 // the block of the conversation, if nothing else is known; 0 is none
	depth  int    // blocks that the instance has which was asked for last
	share  float64
}

// match finds how many blocks an instance has, and their share of the prompt.
func (m *matcher) match(i *Instance) {
	if i.model.index != m.index {
		m.begin(i.model.index)
	}
	if depth := int(m.index.depths[i.position]); depth != m.depth {
		m.depth, m.share = depth, float64(blocksEnd(depth))/float64(m.prompt.size)
	}
	if m.hint != 0 {
		m.share = 0
		if m.index.holds(m.hint, int(i.position)) {
			m.share = hintShare
		}
	}
}

// begin asks an index about the prompt.
func (m *matcher) begin(x *index) {
	m.index, m.hint, m.depth, m.share = x, 0, 0, 0
	if isKnown := x.match(m.prompt.blocks); !isKnown && m.prompt.hint != 0 {
		m.hint = *x.find(m.prompt.hint)
	}
}
