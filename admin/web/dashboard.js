"use strict";

// Asks for the status every second while the page is seen, and shows it. Rates come from the difference of two answers.
const INTERVAL = 1000;
const HISTORY = 90; // points of a small chart
const $ = (id) => document.getElementById(id);
const history = { memory: [], database: [], lag: [] };
let last = null; // { at, memory, database } of the last answer
let tables = [];

const whole = new Intl.NumberFormat("en");
const count = (n) => whole.format(Math.round(n));

function rate(n) {
  return n < 10 && n > 0 ? n.toFixed(1) : count(n);
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

function duration(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 1000) return `${ms} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${(ms / 1000).toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function text(id, value) {
  if ($(id).textContent !== value) $(id).textContent = value;
}

function pill(element, value, kind) {
  element.textContent = value;
  element.className = "pill " + kind;
}

function spark(id, points) {
  const svg = $(id);
  const width = HISTORY - 1, height = 100;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const top = Math.max(1, ...points);
  const first = HISTORY - points.length;
  const line = points.map((p, i) => `${i ? "L" : "M"}${first + i} ${(height - 4 - (p / top) * (height - 10)).toFixed(1)}`).join("");
  if (!svg.firstChild) {
    for (const kind of ["area", "line"]) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", kind);
      svg.append(path);
    }
  }
  const area = points.length > 1 ? `${line}L${width} ${height}L${first} ${height}Z` : "";
  svg.children[0].setAttribute("d", area);
  svg.children[1].setAttribute("d", line);
}

function push(list, value) {
  list.push(value);
  if (list.length > HISTORY) list.shift();
}

const stateKind = { live: "good", hot: "good", loading: "busy", suspended: "warn", refused: "bad", pass: "" };

function cell(row, className, label) {
  const td = document.createElement("td");
  td.className = className;
  if (label) td.dataset.label = label;
  row.append(td);
  return td;
}

// Rows are kept between updates, so that text can be selected and nothing flickers.
function tableRow(body, name) {
  const row = document.createElement("tr");
  row.dataset.name = name;
  cell(row, "name").textContent = name;
  const state = cell(row, "state");
  for (const [tag, className] of [["span", "pill"], ["progress", ""], ["span", "reason"]]) {
    const e = document.createElement(tag);
    e.className = className;
    state.append(e);
  }
  cell(row, "n", "Rows");
  cell(row, "n", "Row memory");
  cell(row, "n", "Index memory");
  body.append(row);
  return row;
}

function showTables() {
  const body = $("tables");
  const wanted = $("filter").value.trim().toLowerCase();
  const rows = new Map([...body.children].map((r) => [r.dataset.name, r]));
  for (const t of tables) {
    const row = rows.get(t.name) || tableRow(body, t.name);
    rows.delete(t.name);
    row.hidden = wanted !== "" && !`${t.name} ${t.state} ${t.mode}`.toLowerCase().includes(wanted);
    const [, state, count_, rowMemory, indexMemory] = row.children;
    const [label, bar, reason] = state.children;
    pill(label, t.mode === t.state ? t.state : `${t.state}${t.mode && t.mode !== "full" ? ", " + t.mode : ""}`, stateKind[t.state] || "");
    const loading = t.state === "loading";
    bar.hidden = !loading;
    let note = t.reason;
    if (loading) {
      const total = Math.max(t.snapshot_total_rows, t.snapshot_done_rows, 1);
      bar.value = t.snapshot_done_rows / total;
      bar.setAttribute("aria-label", `Snapshot of ${t.name}`);
      const progress = `${count(t.snapshot_done_rows)} of about ${count(total)} rows`;
      note = note ? `${progress}; ${note}` : progress;
    }
    reason.textContent = note;
    reason.hidden = !note;
    count_.textContent = count(t.rows);
    rowMemory.textContent = bytes(t.row_bytes);
    indexMemory.textContent = bytes(t.index_bytes);
  }
  for (const gone of rows.values()) gone.remove();
  text("table-count", tables.length ? `(${tables.length})` : "");
  $("filter").hidden = tables.length < 10;
  $("no-tables").hidden = tables.length > 0;
}

function show(s, now) {
  text("version", s.version);
  text("uptime", `up ${duration(s.uptime_s * 1000)}`);
  const flavor = { mysql: "MySQL", mariadb: "MariaDB" }[s.source.flavor] || s.source.flavor;
  text("server", [flavor, s.source.version, s.source.address && `at ${s.source.address}`].filter(Boolean).join(" ") || "–");
  pill($("connected"), s.source.connected ? "connected" : "not connected", s.source.connected ? "good" : "bad");
  text("seq", count(s.applied.seq));
  text("position", s.applied.file ? `${s.applied.file}:${s.applied.pos}` : "–");
  text("gtid", s.applied.gtid || "–");

  const hs = s.reads.handlersocket, mc = s.reads.memcached;
  const memory = hs.memory + mc.memory, database = hs.database + mc.database;
  // After a restart the counters begin anew: no rate for that second.
  if (last && now > last.at && memory >= last.memory && database >= last.database) {
    const seconds = (now - last.at) / 1000;
    push(history.memory, (memory - last.memory) / seconds);
    push(history.database, (database - last.database) / seconds);
    text("memory-rate", rate(history.memory.at(-1)));
    text("database-rate", rate(history.database.at(-1)));
    spark("memory-spark", history.memory);
    spark("database-spark", history.database);
  }
  last = { at: now, memory, database };
  const total = (a, b) => `HandlerSocket ${count(a)}, memcached ${count(b)}`;
  text("memory-total", total(hs.memory, mc.memory));
  text("database-total", total(hs.database, mc.database));

  const w = s.writes;
  text("writes", [`${count(w.done)} done`, ...[["refused", w.refused], ["failed", w.failed], ["uncertain", w.uncertain], ["not applied in time", w.ack_timeouts]]
    .filter(([, n]) => n > 0).map(([what, n]) => `${count(n)} ${what}`)].join(", "));
  text("lag", s.lag.event_age_ms === null ? "–" : duration(s.lag.event_age_ms));
  text("heartbeat", `source heard of ${s.lag.heartbeat_age_ms === null ? "not yet" : duration(s.lag.heartbeat_age_ms) + " ago"}`);
  push(history.lag, s.lag.event_age_ms || 0);
  spark("lag-spark", history.lag);

  const share = s.memory.limit > 0 ? s.memory.used / s.memory.limit : 0;
  text("memory-used", bytes(s.memory.used));
  text("memory-limit", s.memory.limit > 0 ? `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} % of ${bytes(s.memory.limit)}` : "no limit");
  text("items", s.items ? `${count(s.items.items)} memcached items in ${bytes(s.items.used)} of ${bytes(s.items.limit)}, ${count(s.items.evictions)} evicted` : "");
  $("memory-bar").value = Math.min(share, 1);
  $("memory-bar").className = share > 0.9 ? "high" : "";

  tables = s.tables;
  showTables();
}

function problem(message) {
  $("problem").hidden = !message;
  text("problem", message);
}

async function refresh() {
  try {
    const signal = AbortSignal.timeout(5000);
    const [status, ready] = await Promise.all([fetch("api/v1/status", { signal }), fetch("readyz", { signal })]);
    if (!status.ok) throw new Error(`status ${status.status}`);
    const reason = (await ready.text()).trim();
    show(await status.json(), performance.now());
    pill($("ready"), ready.ok ? "ready" : "not ready", ready.ok ? "good" : "warn");
    problem(ready.ok ? "" : reason);
  } catch {
    pill($("ready"), "no answer", "bad");
    problem("The daemon does not answer. What is shown is from its last answer.");
    last = null;
  }
}

async function loop() {
  if (!document.hidden) await refresh();
  setTimeout(loop, INTERVAL);
}

$("filter").addEventListener("input", showTables);
loop();
