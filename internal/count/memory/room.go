package memory

import (
	"math"
	"net/netip"
	"sync"
)

const (
	// share is how many times the free rest a holder may hold: a holder who
	// is alone gets two thirds of the whole, and there is always something left for one
	// who comes later, however many hold their shares already.
	share = 2
	// addressShare is the same for an address that several keys come from. It is so much
	// larger that a key which holds its share leaves room for the others behind the same
	// address, such as the address of a proxy.
	addressShare = 8
)

// Unlimited is the limit of a Room that has no limit.
const Unlimited = math.MaxInt64

// Room is a scarce amount, such as the memory for bodies or the space for uploads on disk.
// Its holders share it: one of them cannot keep it from the others. The zero Room is
// empty: nothing can be taken.
type Room struct {
	mu    sync.Mutex
	limit int64
	taken int64
	// keys and addrs have the accounts of all present holders.
	keys  map[string]*account
	addrs map[netip.Addr]*account
	spare []*account // that nobody uses, for the next caller
}

// maxSpare is how many accounts a Room keeps for callers to come.
const maxSpare = 64

// account is the part of a Room that one holder has. It exists for as long as a lease
// uses it.
type account struct {
	held   int64
	leases int
}

// NewRoom returns a Room of an amount.
func NewRoom(limit int64) *Room {
	return &Room{limit: limit}
}

// SetLimit changes the amount. Parts taken before stay taken, even if they are more than
// that.
func (p *Room) SetLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
}

// Limit returns the amount.
func (p *Room) Limit() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// Most returns how much one holder may have while there is no other.
func (p *Room) Most() int64 {
	limit := p.Limit()
	if limit == Unlimited {
		return limit
	}
	return limit / (share + 1) * share
}

// Taken returns how much all holders have.
func (p *Room) Taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Lease is the part of a Room that one request has. It must not be used concurrently.
// The zero Lease is of no Room and takes whatever it is asked to.
type Lease struct {
	room *Room
	key  string
	addr netip.Addr
	// byKey and byAddr are the accounts of the caller, from the first amount on.
	byKey, byAddr *account
	held          int64
}

// Lease returns a lease for a caller: the one with a key or, without one, anybody from
// an address. It has to be closed. A nil Room returns the zero Lease.
func (p *Room) Lease(key string, addr netip.Addr) Lease {
	return Lease{room: p, key: key, addr: addr}
}

// open finds the accounts of the caller; mu is held.
func (l *Lease) open() {
	p := l.room
	if p.keys == nil {
		p.keys, p.addrs = map[string]*account{}, map[netip.Addr]*account{}
	}
	if l.key != "" {
		l.byKey = openAccount(p, p.keys, l.key, l.held)
	}
	l.addr = clientOf(l.addr)
	l.byAddr = openAccount(p, p.addrs, l.addr, l.held)
}

// openAccount returns the account of a holder for one more lease, which holds something
// already if it is from before the Room had a limit.
func openAccount[H comparable](p *Room, accounts map[H]*account, who H, held int64) *account {
	a := accounts[who]
	if a == nil {
		a = p.newAccount()
		accounts[who] = a
	}
	a.held += held
	a.leases++
	return a
}

// newAccount returns an empty account; mu is held.
func (p *Room) newAccount() *account {
	last := len(p.spare) - 1
	if last < 0 {
		return new(account)
	}
	a := p.spare[last]
	p.spare = p.spare[:last]
	*a = account{}
	return a
}

// closeAccount ends the use of an account by a lease.
func closeAccount[H comparable](p *Room, accounts map[H]*account, who H, a *account) {
	if a == nil {
		return
	}
	if a.leases--; a.leases > 0 {
		return
	}
	delete(accounts, who)
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, a)
	}
}

// clientOf returns the address that counts as one client: an IPv4 address however it is
// written, or the /64 network that an IPv6 subscriber can pick addresses from at will.
func clientOf(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if !addr.Is6() {
		return addr
	}
	return netip.PrefixFrom(addr, 64).Masked().Addr()
}

// Verdict says whether a lease may take more.
type Verdict uint8

// The verdicts: it may, the Room has too little left, or the caller holds its share.
const (
	Granted Verdict = iota
	Exhausted
	ShareUsed
)

// Take takes an amount, unless the verdict is against it.
func (l *Lease) Take(amount int64) Verdict {
	p := l.room
	if p == nil {
		return Granted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	verdict := l.judge(amount)
	if verdict == Granted {
		l.add(amount)
	}
	return verdict
}

// May returns the verdict on an amount and takes nothing.
func (l *Lease) May(amount int64) Verdict {
	p := l.room
	if p == nil {
		return Granted
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.judge(amount)
}

// judge returns the verdict on an amount; mu is held.
func (l *Lease) judge(amount int64) Verdict {
	if l.room.limit == Unlimited {
		return Granted
	}
	if l.byAddr == nil {
		l.open()
	}
	left := l.room.limit - l.room.taken - amount
	if left < 0 {
		return Exhausted
	}
	ofAddress := int64(share)
	if l.byKey != nil {
		ofAddress = addressShare
		if (l.byKey.held+amount)/share > left {
			return ShareUsed
		}
	}
	if (l.byAddr.held+amount)/ofAddress > left {
		return ShareUsed
	}
	return Granted
}

// add adds an amount, which is negative for one that is given back; mu is held.
func (l *Lease) add(amount int64) {
	l.room.taken += amount
	l.held += amount
	if l.byKey != nil {
		l.byKey.held += amount
	}
	if l.byAddr != nil {
		l.byAddr.held += amount
	}
}

// Most returns how much of the Room the caller may have while there is no other.
func (l *Lease) Most() int64 {
	if l.room == nil {
		return Unlimited
	}
	return l.room.Most()
}

// Held returns how much the lease has taken and not given back.
func (l *Lease) Held() int64 { return l.held }

// Keep gives back the part of the lease beyond an amount.
func (l *Lease) Keep(amount int64) {
	if l.room == nil || l.held <= amount {
		return
	}
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	l.add(amount - l.held)
}

// Close gives everything back and ends the lease. A lease that has taken nothing does not wait for
// the others: most requests have two of these.
func (l *Lease) Close() {
	p := l.room
	if l.held == 0 && l.byAddr == nil {
		*l = Lease{}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.add(-l.held)
	closeAccount(p, p.keys, l.key, l.byKey)
	closeAccount(p, p.addrs, l.addr, l.byAddr)
	*l = Lease{}
}
