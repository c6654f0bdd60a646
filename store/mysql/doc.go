// Package mysql keeps alarms in MySQL 8 or MariaDB 10.6 or newer.
package mysql
