package once

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func TestRingIsNewOnce(t *testing.T) {
	m := NewMemory[string](10)
	for _, want := range []State{New, Busy, Busy} {
		if got, _ := m.Begin("1.1.1"); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	m.End("1.1.1", "first")
	m.End("1.1.1", "second")
	if got, value := m.Begin("1.1.1"); got != Done || value != "second" {
		t.Errorf("got %d %q", got, value)
	}
	if got, _ := m.Begin("1.1.2"); got != New {
		t.Errorf("another ring: %d", got)
	}
}

func TestMemoryForgetsTheOldestRings(t *testing.T) {
	const size = 100
	m := NewMemory[int](size)
	id := func(i int) string { return fmt.Sprintf("%d.1.1", i) }
	for i := range 10 * size {
		if state, _ := m.Begin(id(i)); state != New {
			t.Fatalf("%s: %d", id(i), state)
		}
		m.End(id(i), i)
		m.End(id(i), i) // a further end takes no further place
		if len(m.done) > size || len(m.order) > size || len(m.busy) != 0 {
			t.Fatalf("%d ids, %d places, %d busy", len(m.done), len(m.order), len(m.busy))
		}
	}
	for i := 9 * size; i < 10*size; i++ {
		if state, value := m.Begin(id(i)); state != Done || value != i {
			t.Errorf("%s: %d, %d", id(i), state, value)
		}
	}
	if state, _ := m.Begin(id(9*size - 1)); state != New {
		t.Errorf("the oldest is %d", state)
	}
}

func TestOneOfManyCallersHandlesARing(t *testing.T) {
	m := NewMemory[int](1000)
	var handled atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for i := range 500 {
				id := fmt.Sprint(i)
				if state, _ := m.Begin(id); state == New {
					handled.Add(1)
					m.End(id, 0)
				}
			}
		}()
	}
	callers.Wait()
	if handled.Load() != 500 {
		t.Errorf("%d rings were handled, want 500", handled.Load())
	}
}
