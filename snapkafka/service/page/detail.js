// One snapshot: the diagram, lanes, channels, checks, SQL, and the difference to another.
import { actions } from "./actions.js";
import { get, path, post, text } from "./api.js";
import { makeDiagram } from "./diagram.js";
import { bytes, count, h, mood, ms, restorable, table, time } from "./dom.js";

let shown = null;
const CHANNELS_MAX = 50;
const ROWS_FIRST = 20;
const [OTHERS_MAX, VALUE_CHARS] = [100, 120];
const [AGAIN_MS, AGAIN_MOST_MS] = [1000, 30000];

export const isOpen = () => shown !== null;

export function close(place) {
  shown = null;
  place.hidden = true;
  place.replaceChildren();
}

// All but what time alone changes, and what the head shows.
const steady = (told) => JSON.stringify({ ...told, duration_ms: 0, restorable: null, waits: told.waits.map((wait) => wait.text) });

// The broker may answer later for how long the log keeps a snapshot.
function askAgain(place, told, after) {
  if (told.restorable?.how !== "unknown") return;
  setTimeout(async () => {
    if (shown?.epoch === told.epoch && shown.asked === after) await show(place, told.epoch, true, Math.min(2 * after, AGAIN_MOST_MS)).catch(() => null);
  }, after);
}

// `again`: it is open already. `after`: so long until an answer that the broker has not given yet is asked for again.
export async function show(place, epoch, again = false, after = AGAIN_MS) {
  const told = await get(path(String(epoch)));
  if (again && shown?.epoch !== epoch) return;
  const head = h("div", { class: "head" }, facts(told), why(told));
  const same = again && steady(told) === shown.told;
  if (same) {
    shown.head.replaceWith(head);
    shown = { ...shown, head, asked: after };
  } else shown = { epoch, told: steady(told), head, asked: after };
  askAgain(place, told, after);
  if (same) return;
  const diagram = makeDiagram(told.snapshot_id, () => text(path(String(epoch), "/diagram.svg")));
  const [flows, comparison] = [h("div", {}), h("div", {})];
  place.replaceChildren(...[
    h("h2", {}, told.snapshot_id, " ", h("span", { class: `status ${mood(told)}` }, told.verdict ?? told.status), " ",
      h("button", { type: "button", class: "close", onclick: () => place.dispatchEvent(new Event("close")) }, "Close")),
    actions(told, () => show(place, epoch, true).catch(() => null)), head,
    h("h3", {}, "Space-time diagram"), ...diagram.parts,
    h("h3", {}, "Processes, the slowest first"), lanes(told),
    h("h3", {}, "Inputs, the fullest first"), positions(told),
    ...(told.assembled ? [h("h3", {}, "Channels, the fullest first"), flows] : []),
    h("h3", {}, "Checks"), checks(told, diagram.point), assumed(told),
    ...(told.assembled ? [h("h3", {}, "Ask its tables"), sql(told), h("h3", {}, "Compare with another"), comparison] : []),
  ].filter(Boolean));
  place.hidden = false;
  if (!again) place.focus({ preventScroll: false });
  await diagram.draw();
  if (!told.assembled) return;
  flows.replaceChildren(await channels(told));
  const others = await get(`/v1/snapshots?status=COMPLETED&limit=${OTHERS_MAX}`);
  comparison.replaceChildren(diff(told, others.snapshots));
}

function facts(told) {
  const given = {
    Status: told.status, Epoch: told.epoch, Triggered: time(told.initiated_at_ms), By: told.initiated_by_node_id,
    Duration: ms(told.duration_ms), "First report": ms(told.phases.first_reported_ms), "Last report": ms(told.phases.last_reported_ms),
    Type: told.snapshot_type, Parent: told.parent_snapshot_id,
    Processes: `${told.nodes_completed}/${told.nodes_total}`, "In flight": count(told.in_flight_messages),
    Size: bytes(told.total_size_bytes), "Restorable until": restorable(told.restorable), Manifest: told.checkpoint_manifest_uri,
  };
  return h("dl", { class: "facts" },
    Object.entries(given).filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function why(told) {
  const lines = [
    ...(told.failure ? [`Failed (${told.failure.code}): ${told.failure.reason}`] : []),
    ...told.waits.map((wait) => `Waits for ${wait.text}, for ${ms(wait.waited_ms)}`),
    ...(told.contaminated ? [`Contaminated: ${told.contaminated}`] : []),
    ...told.uncaptured.map((item) => `Not in it: ${item.app}: ${item.what}`), ...told.unread_topics,
  ];
  return lines.length ? h("ul", {}, lines.map((line) => h("li", {}, line))) : null;
}

function lanes(told) {
  const last = Math.max(1, ...told.processes.map((one) => one.reported_ms ?? 0));
  const end = (one) => one.reported_ms ?? Number.MAX_VALUE;
  const slow = told.processes.filter((one) => !one.left).sort((a, b) => end(b) - end(a));
  const bar = (one) => {
    const part = (kind, from, to) => {
      const piece = h("i", { class: kind });
      piece.style.left = `${(100 * from) / last}%`;
      piece.style.width = `${Math.max(0.6, (100 * (to - from)) / last)}%`;
      return piece;
    };
    return h("div", { class: "lane-bar", role: "img", "aria-label": `reported at ${ms(one.reported_ms)}` },
      one.reported_ms === null ? null : part("until-reported", 0, one.reported_ms));
  };
  return table([["Process"], ["App"], ["Where"], ["Learned from"], ["Running", "number"], ["Reported", "number"], ["From the trigger on"]],
    slow.map((one) => [one.process, one.app, `${one.host}, pid ${one.pid}`, one.heard, count(one.running),
      ms(one.reported_ms), bar(one)]), "Processes", ROWS_FIRST);
}

const unread = (one) => Math.max(0, one.log_end - one.position);

function positions(told) {
  if (!told.positions.length) return h("p", { class: "why" }, "known once it is captured");
  return table([["App"], ["Input"], ["Position", "number"], ["Log end", "number"], ["Unread", "number"]],
    [...told.positions].sort((a, b) => unread(b) - unread(a))
      .map((one) => [one.app, `${one.topic}[${one.partition}]`, count(one.position), count(one.log_end), count(unread(one))]), "Inputs", ROWS_FIRST);
}

// What is in flight, and how much of it. An older snapshot may lack the columns: its refusal stands in their place.
async function channels(told) {
  const sql = `SELECT sender, sender_app, receiver, receiver_app, topic, "partition", messages, bytes,
    count(*) OVER () AS channels FROM channels ORDER BY bytes DESC, topic, "partition", sender LIMIT ${CHANNELS_MAX}`;
  try {
    const { rows } = await post(path(String(told.epoch), "/query"), { sql, rows_max: CHANNELS_MAX });
    if (!rows.length) return h("p", { class: "why" }, "none");
    const more = rows[0].channels - rows.length;
    return h("div", {}, table([["From"], ["To"], ["Channel"], ["In flight", "number"], ["Bytes", "number"]],
      rows.map((one) => [`${one.sender_app} ${one.sender}`, `${one.receiver_app} ${one.receiver}`,
        `${one.topic}[${one.partition}]`, count(one.messages), count(one.bytes)]), "Channels", ROWS_FIRST),
    more ? h("p", { class: "why" }, `${count(more)} more channels not shown`) : null);
  } catch (error) {
    return h("p", { class: "why" }, `${error.message} ${error.hint ?? ""}`);
  }
}

function checks(told, point) {
  if (!told.checks.length) return h("p", { class: "why" }, "not verified yet");
  const place = (one) => `${one.topic}[${one.partition}] offset ${one.offset}`;
  const link = (one) => h("button", { type: "button", class: "link", title: "Show it in the diagram", onclick: () => point(place(one)) }, place(one));
  const witnesses = (check) => h("ul", { class: "witnesses" }, [...(check.witnesses ?? []), ...(check.notes ?? []),
    ...(check.remarks ?? []).map((what) => ({ what }))]
    .map((one) => h("li", {}, ...(one.topic && one.offset >= 0 ? [link(one), ": "] : []), one.what)));
  const name = (one) => h("div", { class: "check" }, h("b", {}, one.name.split(" ")[0]), ` ${one.title}`, one.says ? h("div", { class: "why" }, one.says) : null);
  return table([["Check"], ["Status"], ["Found", "number"], ["Records", "number"], ["Witnesses and notes"]],
    told.checks.map((one) => [name(one), h("span", { class: { passed: "good", failed: "bad" }[one.status] ?? "warn" }, one.status),
      count(one.found), one.records >= 0 ? count(one.records) : "", witnesses(one)]), "Checks");
}

// What a verdict rests on, and what leaves it open.
function assumed(told) {
  const lines = [...told.left_open.map((line) => `Open: ${line}`), ...told.assumptions.map((line) => `Assumed: ${line}`)];
  return lines.length ? h("ul", { class: "assumed" }, lines.map((line) => h("li", {}, line))) : null;
}

// The columns of every table, asked for when somebody opens the list.
function catalog(told) {
  const place = h("div", { "aria-live": "polite" });
  const sql = `SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) AS columns
    FROM information_schema.columns WHERE table_schema = 'main' GROUP BY 1 ORDER BY 1`;
  const open = async () => {
    if (place.hasChildNodes()) return;
    try {
      const { rows } = await post(path(String(told.epoch), "/query"), { sql });
      place.replaceChildren(table([["Table"], ["Columns"]], rows.map((one) => [one.table_name, one.columns]), "Columns"));
    } catch (error) {
      place.replaceChildren(h("p", { class: "bad" }, `${error.message} ${error.hint ?? ""}`));
    }
  };
  return h("details", { ontoggle: open }, h("summary", {}, "Columns"), place);
}

const cell = (value) => (value === null ? "null" : typeof value === "object" ? JSON.stringify(value) : value);

function sql(told) {
  const answer = h("div", { "aria-live": "polite" });
  const box = h("textarea", { rows: "3", "aria-label": "SQL", spellcheck: "false" });
  box.value = "SELECT topic, count(*) AS messages FROM messages GROUP BY topic";
  const run = async () => {
    answer.replaceChildren("running");
    try {
      const found = await post(path(String(told.epoch), "/query"), { sql: box.value });
      answer.replaceChildren(table(found.columns.map((name) => [name]), found.rows.map((row) => found.columns.map((name) => cell(row[name]))), "Result"),
        h("p", { class: "why" }, [found.more ? "there are more rows" : "", ...found.trust.not_compared].filter(Boolean).join("; ")));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "bad" }, `${error.message} ${error.hint ?? ""}`));
    }
  };
  box.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); });
  const tables = Object.entries(told.tables).map(([name, rows]) => `${name} (${count(rows)})`).join(", ");
  return h("div", {}, h("p", { class: "hint" }, `Tables: ${tables}. Those of another snapshot in this storage: "ID".state. Ctrl+Enter runs.`),
    catalog(told), box, h("p", {}, h("button", { type: "button", onclick: run }, "Run")), answer);
}

const brief = (text) => (text && text.length > VALUE_CHARS ? h("span", { title: text }, `${text.slice(0, VALUE_CHARS)}\u2026`) : text ?? "");

function diff(told, others) {
  const assembled = others.filter((row) => row.assembled && row.epoch !== told.epoch);
  if (!assembled.length) return h("p", { class: "why" }, "no other snapshot is assembled");
  const choice = h("select", { "aria-label": "The other snapshot" }, assembled.map((row) => h("option", { value: row.epoch }, row.snapshot_id)));
  const answer = h("div", { "aria-live": "polite" });
  const run = async () => {
    const [before, after] = [told.epoch, Number(choice.value)].sort((a, b) => a - b);
    try {
      const found = await get(path(String(before), `/diff?against=${after}&keys=20&values=true`));
      answer.replaceChildren(
        table([["App"], ["Table"], ["Added", "number"], ["Changed", "number"], ["Removed", "number"], ["Unchanged", "number"]],
          found.tables.map((one) => [one.app, one.table, count(one.added), count(one.changed), count(one.removed), count(one.unchanged)]), "Tables"),
        table([["App"], ["Table"], ["Change"], ["Key"], ["Before"], ["After"]], found.keys.map((one) => [one.app, one.table, one.change,
          one.key ?? `0x${one.key_raw}`, brief(one.value_before), brief(one.value_after)]), "Keys"),
        table([["From"], ["To"], ["Topic"], ["In flight before", "number"], ["after", "number"]],
          found.channels.map((one) => [one.sender_app, one.receiver_app, one.topic, count(one.messages_before), count(one.messages_after)]), "Channels"));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "bad" }, `${error.message} ${error.hint ?? ""}`));
    }
  };
  return h("div", {}, choice, " ", h("button", { type: "button", onclick: run }, "Compare"), answer);
}
