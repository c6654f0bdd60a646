package main

// To package client, a field that is zero is not given. So these functions refuse 0 as the value of a flag.

// zeroUnless returns the value of a flag, the zero value if the flag is not given.
func zeroUnless[T any](flag *T) (value T) {
	if flag != nil {
		value = *flag
	}
	return value
}

// notZero refuses a flag that is given as 0.
func notZero[T int | int64](name string, flag *T) error {
	if flag != nil && *flag == 0 {
		return usagef("--%s must be at least 1; leave it out for the default", name)
	}
	return nil
}

// notZeroDuration refuses a duration that is given as 0.
func notZeroDuration(name, value string) error {
	d, err := durationFlag(name, value)
	if value != "" && err == nil && d == 0 {
		return usagef("--%s must be more than 0; leave it out for the default", name)
	}
	return nil
}
