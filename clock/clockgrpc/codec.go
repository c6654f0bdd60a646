package clockgrpc

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var errNoMessage = errors.New("not a message of protobuf")

// protoCodec is the binary form of messages. It refuses unknown fields: a field that a newer client sends must not be
// ignored.
type protoCodec struct{}

// Name returns the codec's name in media types.
func (protoCodec) Name() string { return "proto" }

// Marshal encodes a message.
func (protoCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.Marshal(m)
}

// MarshalAppend appends an encoded message.
func (protoCodec) MarshalAppend(b []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// Unmarshal decodes a message.
func (protoCodec) Unmarshal(b []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return errNoMessage
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return err
	}
	return refuseUnknown(m.ProtoReflect())
}

// refuseUnknown returns an error if the message, or a message in it, has a field that this version does not know.
func refuseUnknown(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%s has a field that this server does not know", m.Descriptor().FullName())
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap(): // a map is in google.protobuf.Struct alone
		case field.IsList():
			for i := 0; i < value.List().Len() && err == nil; i++ {
				err = refuseUnknown(value.List().Get(i).Message())
			}
		default:
			err = refuseUnknown(value.Message())
		}
		return err == nil
	})
	return err
}

// jsonCodec is the JSON form of messages. Its fields have the names of the HTTP interface. It refuses unknown fields.
type jsonCodec struct{ name string }

// Name returns the codec's name in media types.
func (c jsonCodec) Name() string { return c.name }

// Marshal encodes a message.
func (jsonCodec) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, errNoMessage
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

// Unmarshal decodes a message.
func (jsonCodec) Unmarshal(b []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return errNoMessage
	}
	if len(b) == 0 {
		return errors.New("the body is empty; send a JSON object")
	}
	return protojson.Unmarshal(b, m)
}
