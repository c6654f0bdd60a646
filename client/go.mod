module github.com/clockd/clockd/client

go 1.24.0
