package archive

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/clockd/clockd/store/engine"
)

// columns are the columns of a row type in the file: its fields, under the names of the database's columns.
type columns struct {
	names  []string // in the order of the fields; "" for a field that is not in the file
	fields map[string]int
}

var (
	alarmColumns   = columnsOf[engine.Row]("Shard")
	attemptColumns = columnsOf[engine.AttemptRow]("ID", "AlarmID")
)

// columnsOf returns the columns of R, except the named fields.
func columnsOf[R any](except ...string) columns {
	row := reflect.TypeFor[R]()
	c := columns{names: make([]string, row.NumField()), fields: make(map[string]int)}
	for i := range c.names {
		name := row.Field(i).Name
		if slices.Contains(except, name) {
			continue
		}
		c.names[i] = columnName(name)
		c.fields[c.names[i]] = i
	}
	return c
}

// columnName returns the column of a field: business_id for BusinessID.
func columnName(field string) string {
	var b strings.Builder
	upper := true // the letter before was upper case, or there was none
	for i, r := range field {
		if unicode.IsUpper(r) && !upper && i > 0 {
			b.WriteByte('_')
		}
		upper = unicode.IsUpper(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// appendRow appends a row as a JSON object. It leaves out columns that are 0, empty or NULL.
func (c *columns) appendRow(b []byte, row reflect.Value) ([]byte, error) {
	b = append(b, '{')
	begin := len(b)
	for i, name := range c.names {
		if name == "" {
			continue
		}
		field := row.Field(i)
		if null, is := field.Interface().(sql.NullInt64); field.IsZero() || is && !null.Valid ||
			field.Kind() == reflect.Slice && field.Len() == 0 {
			continue
		}
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
		var err error
		if b, err = appendValue(b, field.Interface()); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case sql.NullInt64:
		return strconv.AppendInt(b, v.Int64, 10), nil
	case []byte:
		b = append(b, '"')
		return append(base64.StdEncoding.AppendEncode(b, v), '"'), nil
	case string:
		text, err := json.Marshal(v)
		return append(b, text...), err
	}
	return nil, fmt.Errorf("values of type %T have no form in the file", value)
}

// errNull is the error of a column that is null. Columns that are NULL are left out.
var errNull = errors.New("it is null; leave it out")

// parseRow sets the fields of a row to the columns of a JSON object. The other fields stay.
func (c *columns) parseRow(object []byte, row reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return err
	}
	for name, raw := range members {
		i, known := c.fields[name]
		if !known {
			return fmt.Errorf("column %s is unknown: a newer clockd may have written the file", strconv.Quote(name))
		}
		if bytes.Equal(raw, []byte("null")) {
			return fmt.Errorf("column %s: %w", name, errNull)
		}
		into := row.Field(i).Addr().Interface()
		if null, is := into.(*sql.NullInt64); is {
			null.Valid, into = true, &null.Int64
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
	}
	return nil
}
