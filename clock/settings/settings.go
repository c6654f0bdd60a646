package settings

import "github.com/clockd/clockd/clock"

// Settings are what a person decides for one application. The zero value decides nothing: the application has the
// defaults.
type Settings struct {
	clock.Defaults

	Paused      bool // the alarms of the application wait, and no claim of them starts
	HidePayload bool // the console shows payloads on request alone

	parts        partValues
	destinations map[string]partValues // by name
	named        []string              // targets of the destinations, as clock.TargetText
	// numbered has all targets of destinations that the application ever had. The number of one is its index + 1.
	numbered []string
}

// partValues are the values of parts by name; see Part.Of.
type partValues map[string]any
