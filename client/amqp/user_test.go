package amqp

import (
	"context"
	"testing"

	"github.com/clockd/clockd/client"
)

func TestUserOfACertificateIsNotGuessed(t *testing.T) {
	handle := func(context.Context, *Ring) client.Answer { return client.Answer{} }
	for url, want := range map[string]string{
		"amqp://shop:secret@mq/":              "shop",
		"amqp://mq/":                          "guest", // the driver's default
		"amqps://mq/?auth_mechanism=EXTERNAL": "",
		"amqps://shop:x@mq/?auth_mechanism=plain&auth_mechanism=external": "",
		"amqps://shop:x@mq/?auth_mechanism=PLAIN":                         "shop",
	} {
		k, err := Consumer{URL: url, Handle: handle}.withDefaults("shop")
		if err != nil || k.By != want {
			t.Errorf("%s: By is %q, %v; want %q", url, k.By, err, want)
		}
	}
}
