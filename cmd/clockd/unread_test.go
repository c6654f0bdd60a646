package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// heapBound is the most heap with 40 lists whose clients read nothing: a fifth of the 2.5 GiB that their responses have
// in all. The 32 MiB of responses that clockd may hold, the lists that it reads, the rest of the process and the
// garbage of all these stay far below it, even on a machine that is too busy to collect garbage in time.
const heapBound = 512 << 20

// TestUnreadListsKeepMemoryBounded requests 40 lists of 1,000 alarms of 64 KiB and reads nothing. The heap stays within
// its bound, and sets succeed.
func TestUnreadListsKeepMemoryBounded(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "CLOCKD_DATABASE_URL="+e.open(t))
			p.fillWith("large", 1000, strings.Repeat("x", 64<<10-100))
			var conns []net.Conn
			for range 40 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
				_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
				_, _ = fmt.Fprint(conn,
					"GET /v1/applications/large/alarms?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}
			var most float64
			for i := range 200 {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("others", fmt.Sprint(i)),
					map[string]any{"delay": "1h"})
				if i%10 == 0 {
					most = max(most, p.metric("go_memstats_heap_alloc_bytes"))
				}
			}
			for _, conn := range conns {
				_ = conn.Close()
			}
			eventually(t, "no response holds memory any more",
				func() bool { return p.metric("clockd_http_memory_bytes") == 0 })
			t.Logf("the heap held %.0f MiB at most", most/(1<<20))
			if most > heapBound {
				t.Errorf("the heap held %.0f bytes, want at most %d", most, heapBound)
			}
		})
	}
}
