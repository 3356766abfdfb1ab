package netserver

// freeWaiting is what a connection may hold of input that is not complete and output that was not taken before it counts
// against Config.MaxWaiting: small requests and answers always pass.
const freeWaiting = 64 << 10

// waits notes that buffers of a connection hold so much, before is what was noted last. It returns what to note now, and
// whether all connections together hold more than they may because of this one's growth. A connection that is the only
// one to hold something may hold what its own limits allow.
func (s *Server) waits(before, capacity int) (now int, over bool) {
	now = max(capacity-freeWaiting, 0)
	if now == before {
		return now, false
	}
	total := s.counters.waiting.Add(int64(now - before))
	return now, now > before && total > s.cfg.MaxWaiting && total > int64(now)
}
