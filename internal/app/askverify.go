package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/admin"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/progress"
)

// errDiffer ends verify with code 1; the differences have been printed.
var errDiffer = errors.New("verify: cache and database differ")

// askVerify has a running daemon compare, and prints what came of it. Progress goes to stderr.
func askVerify(ctx context.Context, v *config.Verify, stdout, stderr io.Writer) error {
	body, err := json.Marshal(admin.VerifyRequest{Tables: v.Tables, Key: v.Key, Repair: v.Repair, Rate: v.Rate})
	if err != nil {
		return err
	}
	resp, err := askAdmin(ctx, v.Admin, http.MethodPost, "/api/v1/verify", body)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer resp.Body.Close()
	result, err := followVerify(resp.Body, stderr)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if v.JSON {
		err = printJSON(stdout, result)
	} else {
		_, err = io.WriteString(stdout, verifyText(result))
	}
	switch {
	case err != nil:
		return err
	case result.Differences > 0:
		return errDiffer
	case result.Tables == 0 && len(result.Skipped) > 0:
		return errors.New("verify: no table could be compared")
	}
	return nil
}

// followVerify reads the daemon's lines to the result and shows the progress.
func followVerify(lines io.Reader, stderr io.Writer) (*admin.VerifyResult, error) {
	var bar *progress.Bar
	table, done := "", uint64(0)
	end := func() {
		if bar != nil {
			bar.Done(int64(done))
		}
		bar = nil
	}
	defer end()
	for d := json.NewDecoder(lines); ; {
		var l admin.VerifyLine
		switch err := d.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("the daemon has closed the connection before the end")
		case err != nil:
			return nil, err
		case l.Error != "":
			return nil, errors.New(l.Error)
		case l.Result != nil:
			return l.Result, nil
		}
		if bar == nil || l.Table != table {
			end()
			table = l.Table
			bar = progress.New(stderr, "rows of "+table, int64(l.Total))
		}
		done = l.Done
		bar.Set(int64(done))
	}
}

// verifyText is the result for people.
func verifyText(r *admin.VerifyResult) string {
	var b strings.Builder
	for _, d := range r.Found {
		fate := ""
		if d.Mended {
			fate = ", mended"
		}
		fmt.Fprintf(&b, "%-8s %s key %s%s\n", d.Kind, d.Table, d.Key, fate)
	}
	if more := r.Differences - uint64(len(r.Found)); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	var skipped []string
	for table := range r.Skipped {
		skipped = append(skipped, table)
	}
	slices.Sort(skipped)
	for _, table := range skipped {
		fmt.Fprintf(&b, "skipped  %s: %s\n", table, r.Skipped[table])
	}
	fmt.Fprintf(&b, "%d rows of %d tables compared: %d differences, %d of them mended\n", r.Rows, r.Tables, r.Differences, r.Mended)
	return b.String()
}

// askAdmin sends a request, with JSON if there is a body, to the admin port of a daemon, which may be a socket. Other answers
// than 200 are errors with the daemon's text.
func askAdmin(ctx context.Context, addr config.Address, method, path string, body []byte) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, addr.Network, addr.Address)
	}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the daemon's admin port %s does not answer: %w", addr, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return resp, nil
}
