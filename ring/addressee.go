package ring

import (
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// addressee is a store.Addressee. Handles of equal addressees are equal, and compare as fast as pointers.
type addressee = unique.Handle[store.Addressee]

// addresseeOf returns the addressee of a ring.
func addresseeOf(r *clock.Ring) addressee {
	return unique.Make(store.Addressee{Application: r.Application, Named: store.NamedByRing(r)})
}
