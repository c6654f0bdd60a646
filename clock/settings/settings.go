package settings

import "github.com/clockd/clockd/clock"

// Settings are what a person decides for one application. The zero value decides nothing: the application has the
// defaults.
type Settings struct {
	clock.Defaults

	Paused      bool // the alarms of the application wait, and no claim of them starts
	HidePayload bool // the console shows payloads on request alone

	parts map[string]any // values of the parts by name; see Part.Of
}
