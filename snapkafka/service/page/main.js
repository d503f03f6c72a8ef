// The table of snapshots, live, and the keys. Everything shown comes from /v1.
import { Problem, followTogether, get, keepToken } from "./api.js";
import { taking } from "./actions.js";
import { charts } from "./charts.js";
import { doctor } from "./doctor.js";
import { ago, bytes, copy, count, h, inUtc, keepZone, mood, ms, restorable } from "./dom.js";
import { invariants } from "./invariants.js";
import { recovery } from "./recovery.js";
import { close, isOpen, show } from "./detail.js";

const COLUMNS = [["Status"], ["Snapshot"], ["Triggered"], ["Duration", "number"], ["Type"], ["Processes", "number"],
  ["In flight", "number"], ["Size", "number"], ["Verdict"], ["Restorable until"], ["Command"]];
const TICK_MS = 1000;
const DOCTOR_MS = 60000;
const one = (id) => document.getElementById(id);
const body = document.querySelector("#snapshots tbody");
let rows = [];
let older = [];
let next = null;
let selected = null;
let opened = null; // what stands below the table, which the keys may have left
let seen = "";
let namespace = "";

document.querySelector("#snapshots thead tr").append(...COLUMNS.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)));

const command = (row) => `snapkafka show ${/^[\w.-]+$/.test(row.snapshot_id) ? row.snapshot_id : row.epoch} --namespace ${namespace}`;

function why(row) {
  if (row.failure) return `${row.failure.code}: ${row.failure.reason}`;
  if (row.waits_for.length) {
    const more = row.waits_for.length - 1;
    return `waits for ${row.waits_for[0]}${more ? ` and ${more} more` : ""}`;
  }
  if (row.contaminated) return `contaminated: ${row.contaminated}`;
  return row.unread_topics.join("; ");
}

function line(row) {
  const text = why(row);
  const cells = [
    h("span", { class: `status ${mood(row)}` }, row.status),
    [h("a", { href: `#${row.epoch}`, onclick: (event) => { event.preventDefault(); event.stopPropagation(); open(row.epoch); } }, row.snapshot_id),
      row.attempt > 1 ? ` attempt ${row.attempt} ` : " ",
      row.latest_good ? h("span", { class: "badge" }, "latest good") : null,
      text ? h("div", { class: `why ${row.failure ? "bad" : ""}` }, text) : null],
    ago(row.initiated_at_ms), ms(row.duration_ms),
    [row.snapshot_type, row.parent_snapshot_id ? h("div", { class: "why" }, `on ${row.parent_snapshot_id}`) : null],
    `${row.nodes_completed}/${row.nodes_total}`, count(row.in_flight_messages), bytes(row.total_size_bytes),
    row.verdict ? h("span", { class: `status ${mood(row)}` }, row.verdict) : null, restorable(row.restorable),
    h("button", { type: "button", title: command(row), "aria-label": `Copy as command: ${row.snapshot_id}`,
      onclick: (event) => { event.stopPropagation(); copy(command(row), one("live")); } }, "Copy")];
  return h("tr", { "data-epoch": row.epoch, "aria-current": row.epoch === selected ? "true" : null, onclick: () => open(row.epoch) },
    cells.map((cell, i) => h("td", { class: COLUMNS[i][1], "data-name": COLUMNS[i][0] }, cell)));
}

function draw() {
  const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.epoch : null;
  const all = [...rows, ...older];
  body.replaceChildren(...all.map(line));
  charts(one("charts"), all);
  one("empty").hidden = rows.length > 0;
  one("older").hidden = next === null;
  if (focused) body.querySelector(`tr[data-epoch="${focused}"] a`)?.focus();
}

function query() {
  const asked = new URLSearchParams({ limit: "50" });
  if (one("filter-id").value) asked.set("id_prefix", one("filter-id").value);
  if (one("filter-status").value) asked.set("status", one("filter-status").value);
  return asked;
}

async function load() {
  const told = await get(`/v1/snapshots?${query()}`);
  rows = told.snapshots;
  if (!older.length) next = told.next_before;
  else older = older.filter((row) => !rows.some((other) => other.epoch === row.epoch));
  namespace = told.namespace;
  one("namespace").textContent = namespace;
  one("problem").textContent = "";
  draw();
}

async function loadOlder() {
  const asked = query();
  asked.set("before", next);
  const told = await get(`/v1/snapshots?${asked}`);
  older.push(...told.snapshots);
  next = told.next_before;
  draw();
}

// What of a row is on the page of its snapshot, too; a running one's duration grows there when anything else does.
const shown = (epoch) => JSON.stringify({ ...rows.concat(older).find((row) => row.epoch === epoch), duration_ms: 0, latest_good: false });

function refresh() {
  if (!isOpen() || shown(opened) === seen) return null;
  seen = shown(opened);
  return show(one("detail"), opened, true);
}

// What is open and running waits longer.
function wait() {
  const row = rows.concat(older).find((other) => other.epoch === opened);
  return isOpen() && row && mood(row) === "running" ? show(one("detail"), opened, true) : null;
}

function open(epoch, remember = true) {
  selected = opened = epoch;
  seen = shown(epoch);
  document.body.classList.add("opened");
  if (remember && location.hash !== `#${epoch}`) history.pushState(null, "", `#${epoch}`);
  draw();
  show(one("detail"), epoch).catch((error) => {
    complain(error);
    document.body.classList.toggle("opened", isOpen());
  });
}

function closed(remember = true) {
  close(one("detail"));
  document.body.classList.remove("opened");
  if (remember && location.hash.length > 1) history.pushState(null, "", "#");
}

// A direct link, and the way back from a snapshot.
function fromLink() {
  const [, epoch] = /^#(\d+)$/.exec(location.hash) ?? [];
  if (epoch === undefined) closed(false);
  else if (!isOpen() || opened !== Number(epoch)) open(Number(epoch), false);
}

function complain(error) {
  if (error instanceof Problem && error.status === 401) {
    one("token-form").hidden = false;
    one("token").focus();
  }
  one("problem").textContent = error instanceof Problem ? `${error.message} ${error.hint}` : `${error}`;
}

async function live() {
  for (;;) {
    try {
      await load();
      await taking(one("trigger"), rows[0], open); // buttons go by the role
      if (!isOpen() && location.hash.length > 1) fromLink();
      doctor(one("doctor")).catch(complain);
      invariants(one("invariants")).catch(complain);
      recovery(one("recovery")).catch(complain);
      await followTogether("/v1/events", (name, told) => {
        one("live").textContent = `${told.followed ? "live" : told.problem ?? "the ledger is being read"}; ${told.snapshots} snapshots${told.paused ? "; paused" : ""}`;
        load().then(refresh).catch(complain);
        doctor(one("doctor")).catch(complain);
        recovery(one("recovery")).catch(complain);
        invariants(one("invariants")).catch(complain);
      });
    } catch (error) {
      complain(error);
      one("live").textContent = "not connected";
      if (error instanceof Problem && error.status === 401) return;
    }
    await new Promise((done) => setTimeout(done, 2000));
  }
}

function move(step) {
  const all = rows.concat(older);
  if (!all.length) return;
  const at = all.findIndex((row) => row.epoch === selected);
  selected = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))].epoch;
  draw();
  body.querySelector(`tr[data-epoch="${selected}"]`)?.scrollIntoView({ block: "nearest" });
}

function theme() {
  const now = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("snapkafka-theme", document.documentElement.dataset.theme);
}

function zone() {
  keepZone(!inUtc());
  one("zone").textContent = inUtc() ? "UTC" : "Local time";
  draw();
  recovery(one("recovery"), true).catch(complain);
  if (isOpen()) show(one("detail"), opened, true).catch(complain);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) document.activeElement.blur();
    else closed();
    return;
  }
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (/^(BUTTON|A|SUMMARY)$/.test(event.target.tagName) && !/^[jkcdu/]$/.test(event.key)) return;
  const row = rows.concat(older).find((other) => other.epoch === selected);
  const keys = {
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => row && open(row.epoch), "/": () => one("filter-id").focus(), d: theme, u: zone,
    c: () => row && copy(command(row), one("live")),
  };
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});
one("theme").addEventListener("click", theme);
one("zone").addEventListener("click", zone);
one("zone").textContent = inUtc() ? "UTC" : "Local time";
one("charts").open = matchMedia("(min-width: 701px)").matches;
one("detail").addEventListener("close", () => closed());
addEventListener("popstate", fromLink);
one("older").addEventListener("click", () => loadOlder().catch(complain));
one("filters").addEventListener("input", () => { older = []; load().catch(complain); });
one("filters").addEventListener("submit", (event) => event.preventDefault());
one("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(one("token").value);
  one("token-form").hidden = true;
  live();
});
const kept = localStorage.getItem("snapkafka-theme");
if (kept) document.documentElement.dataset.theme = kept;
let ticking = false;
async function tick() {
  if (ticking) return;
  ticking = true;
  await load().then(refresh).then(wait).catch(complain);
  ticking = false;
}

setInterval(() => { // times are further away, and what runs runs longer
  if (document.hidden) return;
  if (rows.some((row) => mood(row) === "running")) tick();
  for (const at of document.querySelectorAll("time")) at.textContent = ago(Date.parse(at.dateTime)).textContent;
}, TICK_MS);
setInterval(() => {
  if (!document.hidden && !one("doctor").hidden) doctor(one("doctor")).catch(complain);
}, DOCTOR_MS);
live();
