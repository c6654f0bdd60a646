package clock

import "testing"

func TestOpsHaveNames(t *testing.T) {
	for want, op := range map[string]Op{
		"set": {Set: &Set{}}, "cancel": {Cancel: &Cancel{}}, "kick": {Kick: &Kick{}}, "discard": {Discard: &Discard{}},
		"pause": {Pause: &Pause{}}, "resume": {Resume: &Resume{}}, "recompute": {Recompute: &Recompute{}},
		"shift": {Shift: &Shift{}},
		"ack":   {Answer: &Answer{Kind: Ack}}, "touch": {Answer: &Answer{Kind: Touch}},
	} {
		if got := op.Name(); got != want {
			t.Errorf("%s is named %q", want, got)
		}
	}
}

func TestOpHasTheKeyAndSizeOfItsRequest(t *testing.T) {
	s := testSet("a")
	s.Payload = make([]byte, 1000)
	set, cancel := Op{Set: s}, Op{Cancel: &Cancel{Key: Key{"shop", "b"}}}
	if set.Key() != s.Key || cancel.Key() != cancel.Cancel.Key {
		t.Error("wrong key")
	}
	for _, op := range []Op{
		{Answer: &Answer{Key: Key{"shop", "b"}}}, {Kick: &Kick{Key: Key{"shop", "b"}}},
		{Discard: &Discard{Key: Key{"shop", "b"}}},
		{Pause: &Pause{Key: Key{"shop", "b"}}}, {Resume: &Resume{Key: Key{"shop", "b"}}},
		{Recompute: &Recompute{Key: Key{"shop", "b"}}}, {Shift: &Shift{Key: Key{"shop", "b"}}},
	} {
		if op.Key() != cancel.Key() || op.Size() != cancel.Size() {
			t.Errorf("%+v: key %v, size %d", op, op.Key(), op.Size())
		}
	}
	if set.Size()-cancel.Size() != 1000 || cancel.Size() < 100 {
		t.Errorf("sizes %d and %d", set.Size(), cancel.Size())
	}
}
