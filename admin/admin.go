// Package admin is the HTTP port for people and monitoring: liveness, readiness, metrics, the status as JSON, a
// dashboard, the runtime's profiles, and comparisons of cache and database. It knows the rest of the program through
// Reporter and Prover.
//
// Run owns the port's goroutines and waits for them.
package admin

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers on the admin port.
type Server struct {
	reporter Reporter
	prover   Prover
	logger   *slog.Logger
	handler  http.Handler
	conns    atomic.Int64
}

const (
	// writeTimeout bounds an answer, but for profiles, which take as long as they are asked to.
	writeTimeout = 15 * time.Second
	// drainTimeout bounds the wait for answers under way when the process ends.
	drainTimeout = 3 * time.Second
	// maxConns keeps this port from taking the descriptors that clients of the cache need.
	maxConns = 256
)

//go:embed web
var web embed.FS

// New makes the server. The metrics are those of gatherer; logger may be nil.
func New(reporter Reporter, prover Prover, gatherer prometheus.Gatherer, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{reporter: reporter, prover: prover, logger: logger}
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is part of this package
	}
	quick := http.NewServeMux()
	quick.HandleFunc("GET /livez", s.livez)
	quick.HandleFunc("GET /readyz", s.readyz)
	quick.HandleFunc("GET /api/v1/status", s.status)
	quick.HandleFunc("GET /api/v1/explain", s.explain)
	quick.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}))
	quick.Handle("GET /{$}", http.FileServerFS(files))
	quick.Handle("GET /dashboard.js", http.FileServerFS(files))
	quick.Handle("GET /dashboard.css", http.FileServerFS(files))
	quick.Handle("GET /icon.svg", http.FileServerFS(files))

	profiles := http.NewServeMux()
	profiles.HandleFunc("GET /debug/pprof/", pprof.Index)
	profiles.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("GET /debug/pprof/trace", pprof.Trace)

	mux := http.NewServeMux()
	mux.Handle("/", withDeadline(quick))
	mux.HandleFunc("POST /api/v1/verify", s.verify)
	mux.Handle("/debug/", profiles)
	s.handler = guard(mux)
	return s
}

// Handler returns the handler of all paths.
func (s *Server) Handler() http.Handler { return s.handler }

// Run answers on l until ctx ends, then lets answers under way end, for a bounded time, and closes l. It returns nil
// after such an end.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		ConnState:         s.countConn,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if server.Shutdown(drain) != nil {
		// A profile that is still being taken is cut off.
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) countConn(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.conns.Add(1) > maxConns {
			s.logger.Warn("admin port: too many connections, closing the newest", "limit", maxConns)
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	}
}

func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A writer that can't have a deadline (in tests) goes without.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		next.ServeHTTP(w, r)
	})
}

// guard keeps web pages of elsewhere from using a browser that can reach this port: by a name of theirs that resolves to
// our address, by requests across origins, or by a frame.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && !hostAllowed(addr, r.Host) {
			http.Error(w, "this port answers to localhost or an IP address only, not to the name in the Host header", http.StatusForbidden)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			// A link from elsewhere to the dashboard is fine; what costs something is not.
			if r.Header.Get("Sec-Fetch-Mode") != "navigate" || strings.HasPrefix(r.URL.Path, "/debug/") {
				http.Error(w, "requests from other sites are not answered", http.StatusForbidden)
				return
			}
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// hostAllowed tells whether a request with that Host header may be answered on that local address. On a loopback
// address the header can only rightly be localhost or an address. Elsewhere the port has names that we don't know.
func hostAllowed(local net.Addr, host string) bool {
	tcp, ok := local.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || name == "" {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "ok")
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if reasons := s.reporter.NotReady(); len(reasons) > 0 {
		writeText(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n"))
		return
	}
	writeText(w, http.StatusOK, "ready")
}

// writeText sends one text. A client that has gone is no error of ours.
func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n"))
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	status := s.reporter.Status()
	if status.Tables == nil {
		status.Tables = []TableStatus{} // a list for every reader, never null
	}
	body, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		s.logger.Error("admin port: status", "err", err)
		http.Error(w, "the status can't be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}
