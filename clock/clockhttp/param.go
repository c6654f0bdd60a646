package clockhttp

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// onlyNumber returns the value of the only parameter that the request may have: a number from 1 to most. Without it the
// value is absent.
func onlyNumber(c echo.Context, name string, absent, most int) (int, error) {
	number := absent
	for given, values := range c.QueryParams() {
		if given != name {
			return 0, clock.Invalid(codeUnknownParameter, given,
				fmt.Sprintf("unknown parameter %q; known is %s", given, name))
		}
		var err error
		if number, err = parseNumber(values[len(values)-1], name, most); err != nil {
			return 0, err
		}
	}
	return number, nil
}

// parseNumber reads a number from 1 to most.
func parseNumber(text, name string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, clock.Invalid(clock.CodeOutOfRange, name, fmt.Sprintf("%s must be from 1 to %d", name, most))
	}
	return n, nil
}

// queryParams returns the parameters of a request that may have these and no others, each once. names is in the order
// of the alphabet.
func queryParams(c echo.Context, names ...string) (url.Values, error) {
	values, err := queryValues(c)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(names) == 0 {
			return nil, clock.Invalid(codeUnknownParameter, name,
				fmt.Sprintf("unknown parameter %q; this request has none", name))
		}
		if !slices.Contains(names, name) {
			return nil, clock.Invalid(codeUnknownParameter, name,
				fmt.Sprintf("unknown parameter %q; known are %s", name, strings.Join(names, ", ")))
		}
		if len(values[name]) > 1 {
			return nil, duplicateField(name)
		}
	}
	return values, nil
}

// queryValues returns the parameters of a request.
func queryValues(c echo.Context) (url.Values, error) {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, &front.Problem{Status: http.StatusBadRequest, Code: codeInvalidPath,
			Detail: "the query cannot be decoded: " + err.Error()}
	}
	return values, nil
}

// numberParam returns a number from 1 to most. Without the parameter it is absent.
func numberParam(values url.Values, name string, absent, most int) (int, error) {
	if !values.Has(name) {
		return absent, nil
	}
	return parseNumber(values.Get(name), name, most)
}

// flagParam returns whether the parameter is true. Without the parameter it is false.
func flagParam(values url.Values, name string) (bool, error) {
	switch value := values.Get(name); {
	case value == "true":
		return true, nil
	case value == "false", !values.Has(name):
		return false, nil
	default:
		return false, clock.Invalid(clock.CodeInvalidValue, name,
			fmt.Sprintf("%s is %.64q; it must be true or false", name, value))
	}
}

// applicationParam returns the application that the parameter names. Without the parameter it is empty.
func applicationParam(values url.Values) (string, error) {
	application := values.Get("application")
	if application == "" {
		return "", nil
	}
	return application, clock.ValidateApplication(application)
}
