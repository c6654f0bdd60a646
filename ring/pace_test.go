package ring

import "testing"

func TestPace(t *testing.T) {
	type batch struct {
		load      float64
		handedOut int // decreases when the batch was handed out
		failed    bool
		want      int
	}
	for name, batches := range map[string][]batch{
		"slow batches are halved down to the least": {
			{load: 0.75, want: 160}, {load: 3, handedOut: 1, want: 80}, {load: 1, handedOut: 2, want: 40},
			{load: 1, handedOut: 3, want: 20},
			{load: 1, handedOut: 4, want: 16}, {load: 1, handedOut: 5, want: 16},
		},
		"batches from before a decrease count once": {{load: 1, want: 160}, {load: 1, want: 160},
			{failed: true, want: 160}},
		"easy batches grow to the full size": {{load: 1, want: 160}, {load: 0.25, want: 180}, {want: 200}},
		"fair batches grow slowly": {{load: 0.5, want: 320}, {load: 1, want: 160},
			{load: 0.26, handedOut: 1, want: 165}, {load: 0.5, want: 170}},
		"batches in between change nothing": {{load: 0.74, want: 320}, {load: 1, want: 160},
			{load: 0.51, handedOut: 1, want: 160}},
		"failures go below the least of slow batches": {
			{failed: true, want: 160}, {failed: true, handedOut: 1, want: 80}, {failed: true, handedOut: 2, want: 40},
			{failed: true, handedOut: 3, want: 20},
			{failed: true, handedOut: 4, want: 10}, {load: 1, handedOut: 5, want: 10},
			{failed: true, handedOut: 5, want: 5}, {failed: true, handedOut: 6, want: 2},
			{failed: true, handedOut: 7, want: 1}, {failed: true, handedOut: 8, want: 1},
			{load: 0.1, handedOut: 9, want: 2},
		},
		"below the least of slow batches every success counts": {
			{failed: true, want: 160}, {failed: true, handedOut: 1, want: 80}, {failed: true, handedOut: 2, want: 40},
			{failed: true, handedOut: 3, want: 20},
			{failed: true, handedOut: 4, want: 10}, {failed: true, handedOut: 5, want: 5},
			{load: 0.9, handedOut: 6, want: 10},
			{load: 1, handedOut: 6, want: 10}, {load: 0.5, handedOut: 6, want: 16}, {load: 0.9, handedOut: 6, want: 16},
			{load: 0.5, handedOut: 6, want: 21},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPace(320)
			for i, b := range batches {
				if b.failed {
					p.noteFailure(b.handedOut)
				} else {
					p.note(b.load, b.handedOut)
				}
				if p.rows != b.want {
					t.Fatalf("after batch %d: %d rows, want %d", i, p.rows, b.want)
				}
			}
		})
	}
}
