package settings_test

import (
	"errors"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// A document has what a person decides. Everything else has its default.
func ExampleParse() {
	s, err := settings.Parse(`{"target":"kafka","kafka":{"topic":"shop-rings"},"max_rings":3}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Target, s.Kafka.Topic, s.Kafka.Key, s.Rings(), s.RetryPolicy().Cap)

	_, err = settings.Parse(`{"kafka":{"topic":"shop-rings","key":"hash"}}`)
	var wrong *clock.Error
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Field, wrong.Code)
	}
	// Output:
	// kafka shop-rings business_id 3 30s
	// kafka.key invalid_value
}

// People see neither signing secrets nor the values of headers.
func ExampleSettings_Redacted() {
	s, err := settings.Parse(`{"target":"webhook","webhook":{"url":"https://shop.example/rings?key=7",
		"headers":{"authorization":"Bearer x"},"secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	shown := s.Redacted().Webhook
	fmt.Println(shown.URL, shown.Headers, shown.Secrets)
	// Output: https://shop.example/rings?... map[authorization:...] [whsec_...]
}
