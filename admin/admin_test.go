package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reporter tells what the test puts into it.
type reporter struct {
	status   Status
	notReady []string
}

func (r *reporter) Status() Status     { return r.status }
func (r *reporter) NotReady() []string { return r.notReady }

func sample() *reporter {
	event, heartbeat, behind := int64(3), int64(450), int64(40)
	pass := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &reporter{status: Status{
		Version: "v1.2.3", UptimeS: 61,
		Source:  SourceStatus{Flavor: "mysql", Version: "8.4.6", Address: "127.0.0.1:3306", Connected: true, Candidates: []string{"127.0.0.1:3306"}},
		Applied: Position{GTID: "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5", File: "binlog.000002", Pos: 1234, Seq: 5},
		Lag:     Lag{EventAgeMS: &event, HeartbeatAgeMS: &heartbeat, BehindMS: &behind},
		Tables: []TableStatus{{
			Name: "app.user", Mode: "full", State: "live", Rows: 10, IndexBytes: 100, RowBytes: 1000,
			SnapshotDoneRows: 9, SnapshotTotalRows: 9,
		}},
		Reads:  Reads{HandlerSocket: ReadCounts{Memory: 7, Database: 1}, Memcached: ReadCounts{Memory: 4}},
		Writes: Writes{Done: 5, Refused: 1, Failed: 2, Uncertain: 3, AckTimeouts: 4, FencedTables: 1},
		Memory: Memory{Limit: 1 << 30, Used: 1100},
		Verification: VerificationStatus{
			Rows: 99, Differences: map[string]uint64{"extra": 1}, Mended: 1, Passes: 3, LastPass: &pass,
		},
	}}
}

func newServer(t *testing.T, r Reporter) *httptest.Server {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(r))
	ts := httptest.NewServer(New(r, nil, registry, nil).Handler())
	t.Cleanup(ts.Close)
	return ts
}

func get(t *testing.T, url string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestHealth(t *testing.T) {
	r := sample()
	ts := newServer(t, r)
	if resp, body := get(t, ts.URL+"/livez"); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("livez: %d %q", resp.StatusCode, body)
	}
	if resp, body := get(t, ts.URL+"/readyz"); resp.StatusCode != 200 || body != "ready\n" {
		t.Errorf("readyz: %d %q", resp.StatusCode, body)
	}
	r.notReady = []string{"app.user is loading: 5 of 10 rows", "the source is not connected"}
	resp, body := get(t, ts.URL+"/readyz")
	if resp.StatusCode != 503 || body != "app.user is loading: 5 of 10 rows\nthe source is not connected\n" {
		t.Errorf("readyz: %d %q", resp.StatusCode, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("readyz: type %q", got)
	}
	if resp, _ := get(t, ts.URL+"/livez"); resp.StatusCode != 200 {
		t.Error("a process that is not ready is alive all the same")
	}
}

// TestStatusNames keeps the names that users and tools rely on.
func TestStatusNames(t *testing.T) {
	const want = `{"applied":{"file":"binlog.000002","gtid":"3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5","pos":1234,"seq":5},` +
		`"lag":{"behind_ms":40,"event_age_ms":3,"heartbeat_age_ms":450,"stale":false},"memory":{"limit":1073741824,"used":1100},` +
		`"reads":{"handlersocket":{"database":1,"memory":7},"memcached":{"database":0,"memory":4}},` +
		`"source":{"address":"127.0.0.1:3306","candidates":["127.0.0.1:3306"],"connected":true,"failovers":0,"flavor":"mysql","version":"8.4.6"},` +
		`"tables":[{"index_bytes":100,"mode":"full","name":"app.user","reason":"","row_bytes":1000,"rows":10,` +
		`"snapshot_done_rows":9,"snapshot_total_rows":9,"state":"live"}],"uptime_s":61,` +
		`"verification":{"differences":{"extra":1},"last_pass":"2026-01-02T03:04:05Z","mended":1,"passes":3,"rows":99},"version":"v1.2.3",` +
		`"writes":{"ack_timeouts":4,"done":5,"failed":2,"fenced_tables":1,"refused":1,"uncertain":3}}`
	resp, body := get(t, newServer(t, sample()).URL+"/api/v1/status")
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("type %q", got)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(all) // keys in order
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, body = get(t, newServer(t, &reporter{}).URL+"/api/v1/status")
	if !strings.Contains(body, `"tables": []`) || !strings.Contains(body, `"event_age_ms": null`) {
		t.Errorf("without tables and lag: %s", body)
	}
}

func TestMetrics(t *testing.T) {
	r := sample()
	r.notReady = []string{"x"}
	ts := newServer(t, r)
	_, body := get(t, ts.URL+"/metrics")
	for _, line := range []string{
		`binlogcache_build_info{version="v1.2.3"} 1`,
		`binlogcache_ready 0`,
		`binlogcache_uptime_seconds 61`,
		`binlogcache_source_connected{flavor="mysql"} 1`,
		`binlogcache_applied_transactions_total 5`,
		`binlogcache_lag_event_age_seconds 0.003`,
		`binlogcache_lag_heartbeat_age_seconds 0.45`,
		`binlogcache_table_state{mode="full",state="live",table="app.user"} 1`,
		`binlogcache_table_rows{table="app.user"} 10`,
		`binlogcache_table_row_bytes{table="app.user"} 1000`,
		`binlogcache_table_index_bytes{table="app.user"} 100`,
		`binlogcache_reads_total{answered_by="memory",protocol="handlersocket"} 7`,
		`binlogcache_reads_total{answered_by="database",protocol="memcached"} 0`,
		`binlogcache_memory_limit_bytes 1.073741824e+09`,
		`binlogcache_memory_used_bytes 1100`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	// An age that is not known is no metric rather than a wrong one.
	r.status.Lag = Lag{}
	if _, body := get(t, ts.URL+"/metrics"); strings.Contains(body, "_age_seconds ") {
		t.Error("an unknown age is shown")
	}
}

// TestDashboard: the page is whole, from this binary alone.
func TestDashboard(t *testing.T) {
	ts := newServer(t, sample())
	types := map[string]string{
		"/": "text/html", "/dashboard.js": "text/javascript", "/dashboard.css": "text/css", "/icon.svg": "image/svg+xml",
	}
	for path, want := range types {
		resp, body := get(t, ts.URL+path)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), want) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		for _, outside := range []string{"https://", "http://", "//cdn"} {
			if i := strings.Index(strings.ReplaceAll(body, "http://www.w3.org/2000/svg", ""), outside); i >= 0 {
				t.Errorf("%s refers to something outside", path)
			}
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
	// The policy allows no code or style inside the page.
	_, page := get(t, ts.URL+"/")
	if strings.Contains(page, "<style") || strings.Contains(page, "style=") || strings.Contains(page, "onclick") {
		t.Error("the page has style or code of its own")
	}
	for _, path := range []string{"/index.html", "/nothing", "/web/", "/api/v1/"} {
		if resp, _ := get(t, ts.URL+path); resp.StatusCode != 404 && resp.Request.URL.Path != "/" {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func TestProfiles(t *testing.T) {
	ts := newServer(t, sample())
	if resp, body := get(t, ts.URL+"/debug/pprof/"); resp.StatusCode != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("index: %d", resp.StatusCode)
	}
	if resp, body := get(t, ts.URL+"/debug/pprof/goroutine?debug=1"); resp.StatusCode != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("goroutines: %d", resp.StatusCode)
	}
}

func TestMethods(t *testing.T) {
	ts := newServer(t, sample())
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/api/v1/status", "/debug/pprof/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, resp.StatusCode)
		}
	}
}

// TestOtherSites: a page of elsewhere can't use a browser on this machine to read or load the port.
func TestOtherSites(t *testing.T) {
	ts := newServer(t, sample())
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	for _, c := range []struct {
		name   string
		path   string
		change func(*http.Request)
		want   int
	}{
		{"localhost", "/api/v1/status", host("localhost:8911"), 200},
		{"localhost with a dot", "/api/v1/status", host("LOCALHOST.:8911"), 200},
		{"address", "/api/v1/status", host("127.0.0.1:8911"), 200},
		{"IPv6", "/api/v1/status", host("[::1]:8911"), 200},
		{"address without a port", "/api/v1/status", host("127.0.0.1"), 200},
		{"a name that was made to resolve to us", "/api/v1/status", host("evil.example:8911"), 403},
		{"a name without a port", "/livez", host("evil.example"), 403},
		{"the dashboard's own request", "/api/v1/status", header("Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"), 200},
		{"an address typed in", "/", header("Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"), 200},
		{"a link from elsewhere", "/", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200},
		{"a fetch from elsewhere", "/api/v1/status", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"), 403},
		{"another port of this machine", "/metrics", header("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"), 403},
		{"a link to a profile", "/debug/pprof/goroutine", header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := get(t, ts.URL+c.path, c.change)
			if resp.StatusCode != c.want {
				t.Errorf("%d, want %d: %s", resp.StatusCode, c.want, body)
			}
			if resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("other origins are let in")
			}
		})
	}
	other := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8911}
	if !hostAllowed(other, "cache-1.internal:8911") || !hostAllowed(&net.UnixAddr{Name: "/run/x"}, "anything") {
		t.Error("off loopback the port has names that we can't know")
	}
}

func TestRun(t *testing.T) {
	r := sample()
	for _, profiling := range []bool{false, false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- New(r, nil, prometheus.NewRegistry(), nil).Run(ctx, l) }()
		url := "http://" + l.Addr().String()
		if _, body := get(t, url+"/livez"); body != "ok\n" {
			t.Errorf("livez says %q", body)
		}
		profile := make(chan struct{})
		if profiling { // which is cut off at the end
			answered := make(chan struct{})
			go func() {
				defer close(profile)
				resp, err := http.Get(url + "/debug/pprof/trace?seconds=60")
				close(answered)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			<-answered
		} else {
			close(profile)
		}
		start := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
		if d := time.Since(start); d > drainTimeout+2*time.Second {
			t.Errorf("the end took %v", d)
		}
		<-profile
		if _, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
			t.Error("the port is still open")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(r, nil, prometheus.NewRegistry(), nil).Run(t.Context(), l); err == nil {
		t.Error("no error on a listener that is closed")
	}
}

// TestManyConnections: idle connections can't take all descriptors.
func TestManyConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(sample(), nil, prometheus.NewRegistry(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	defer func() {
		cancel()
		<-ended
	}()
	closed := 0
	var conns []net.Conn
	for range maxConns + 20 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for _, c := range slices.Backward(conns) { // the newest are those that are closed
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
			closed++
		}
		if closed == 20 {
			break
		}
	}
	if closed != 20 {
		t.Errorf("%d of %d connections were closed, want 20", closed, len(conns))
	}
}

func isTimeout(err error) bool {
	t, ok := err.(net.Error)
	return ok && t.Timeout()
}

// comparing is a Prover whose comparison ends as the test says.
type comparing struct {
	lines []VerifyLine
	err   error
}

func (c comparing) Explain(table string, key []string) (*Explanation, error) {
	return &Explanation{Table: table, State: strings.Join(key, " ")}, c.err
}

func (c comparing) Verify(_ context.Context, r VerifyRequest, line func(VerifyLine) error) error {
	for _, l := range c.lines {
		if l.Table == "" && l.Result == nil {
			l.Table = strings.Join(r.Tables, ",") + strings.Join(r.Key, ",")
		}
		if err := line(l); err != nil {
			return err
		}
	}
	return c.err
}

func TestVerify(t *testing.T) {
	const request = `{"tables":["a.b"],"key":["1"]}`
	for _, c := range []struct {
		name, body, kind string
		verifier         comparing
		code             int
		want             string
	}{
		{
			"progress and result", request, "application/json",
			comparing{lines: []VerifyLine{{Done: 1}, {Result: &VerifyResult{Rows: 2}}}},
			200,
			`{"table":"a.b1","done":1}` + "\n" + `{"result":{"tables":0,"rows":2,"differences":0,"mended":0,"found":null,"skipped":null}}` + "\n",
		},
		{"an error at once", "", "application/json", comparing{err: errors.New("it broke")}, 500, "it broke\n"},
		{"a bad request", "", "application/json; charset=utf-8", comparing{err: fmt.Errorf("%w: no table", ErrBadRequest)}, 400, "bad request: no table\n"},
		{
			"an error later", request, "application/json",
			comparing{lines: []VerifyLine{{Done: 1}}, err: errors.New("it broke")},
			200,
			`{"table":"a.b1","done":1}` + "\n" + `{"error":"it broke"}` + "\n",
		},
		{"an unknown key", `{"table":"a.b"}`, "application/json", comparing{}, 400, "the body is no request: json: unknown field \"table\"\n"},
		{"a huge body", `{"tables":["` + strings.Repeat("a", 1<<20) + `"]}`, "application/json", comparing{}, 400, "the body is no request: http: request body too large\n"},
		{"a form of another site", request, "text/plain", comparing{}, 415, "want Content-Type: application/json\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := httptest.NewServer(New(sample(), c.verifier, prometheus.NewRegistry(), nil).Handler())
			defer ts.Close()
			resp, err := http.Post(ts.URL+"/api/v1/verify", c.kind, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.code || string(body) != c.want {
				t.Errorf("%d %q, error %v", resp.StatusCode, body, err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 200, `"table": "a.b"`},
		{fmt.Errorf("%w: no table", ErrNotFound), 404, "no table"},
		{fmt.Errorf("%w: a key of two", ErrBadRequest), 400, "a key of two"},
		{errors.New("it broke"), 500, "it broke"},
	} {
		ts := httptest.NewServer(New(sample(), comparing{err: c.err}, prometheus.NewRegistry(), nil).Handler())
		resp, body := get(t, ts.URL+"/api/v1/explain?table=a.b&key=1&key=x%20y")
		if resp.StatusCode != c.code || !strings.Contains(body, c.want) || c.err == nil && !strings.Contains(body, `"state": "1 x y"`) {
			t.Errorf("%v: %d %q", c.err, resp.StatusCode, body)
		}
		ts.Close()
	}
}
