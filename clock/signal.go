package clock

// Signal sends on a channel of capacity 1 that carries no data, unless a signal is already waiting there. It never
// blocks.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
