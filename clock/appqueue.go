package clock

// turnBytes is the credit, in bytes of cost(), that an application gains at each turn (deficit round robin). An op with
// a higher cost waits until its application has gained enough credit. With the default WriterConfig.GroupBytes the
// largest payload, GroupBytes/2, needs 32 turns.
const turnBytes = 64 << 10

// leastCost is the least cost of an op, in bytes. A cancel has no payload, but it also writes a row.
const leastCost = 2 << 10

// cost is the credit that the op uses up, in bytes.
func (p *Pending) cost() int { return max(p.size, leastCost) }

// appQueue is the ops of one application in the queue of the Writer. An op is in ready, in blocked, or in a
// transaction.
type appQueue struct {
	name        string
	ready       opList // ops that are first on their keys; a group may take them
	blocked     opList // ops that wait for an earlier op on their key, in order of arrival
	bytes       int    // bytes of all ops: queued and in transactions
	queuedBytes int    // bytes of the ops in the two lists
	readyOps    int    // number of ops in ready
	hasTurn     bool   // the application is in Writer.turns
	creditBytes int    // credit left in this turn, in bytes of cost()
	heapIndex   int    // index in Writer.appsBySize
}

// newest returns the op that arrived last, nil if none is queued. No op is behind it on its key, because that op would
// be newer.
func (a *appQueue) newest() *Pending {
	r, b := a.ready.last, a.blocked.last
	if r == nil || b != nil && b.arrival > r.arrival {
		return b
	}
	return r
}

// opList is a list of ops, linked through Pending.prevInList and Pending.nextInList.
type opList struct{ first, last *Pending }

func (l *opList) pushBack(p *Pending) {
	p.prevInList, p.nextInList = l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.nextInList = p
	}
	l.last = p
}

func (l *opList) pushFront(p *Pending) {
	p.prevInList, p.nextInList = nil, l.first
	if l.first == nil {
		l.last = p
	} else {
		l.first.prevInList = p
	}
	l.first = p
}

func (l *opList) remove(p *Pending) {
	if p.prevInList == nil {
		l.first = p.nextInList
	} else {
		p.prevInList.nextInList = p.nextInList
	}
	if p.nextInList == nil {
		l.last = p.prevInList
	} else {
		p.nextInList.prevInList = p.prevInList
	}
	p.prevInList, p.nextInList = nil, nil
}

// keyQueue is the ops of one key, linked through Pending.nextOnKey. They are written one by one, in order of arrival.
type keyQueue struct {
	first, last *Pending // first is in the list of ready ops, or a transaction has taken it
	ops         int
	locked      bool // first waits for its locked row
}

// byQueuedBytes is a container/heap of applications. The application with the most queued bytes is first.
type byQueuedBytes []*appQueue //nolint:recvcheck // Push and Pop change the slice

func (h byQueuedBytes) Len() int           { return len(h) }
func (h byQueuedBytes) Less(i, j int) bool { return h[i].queuedBytes > h[j].queuedBytes }

func (h byQueuedBytes) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *byQueuedBytes) Push(x any) {
	a := x.(*appQueue) //nolint:errcheck,forcetypeassert // nothing else is pushed
	a.heapIndex = len(*h)
	*h = append(*h, a)
}

// Pop implements heap.Interface.
func (h *byQueuedBytes) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return a
}
