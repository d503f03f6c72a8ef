// Elements and values as people read them. Text only ever becomes text: nothing here parses HTML.
export function h(tag, told = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(told)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

const unfolded = new Set(); // labels of tables that somebody wanted whole: they stay so

// `most`: so many rows at first, and a button for the others.
export function table(columns, rows, label, most = Infinity) {
  const lines = (some) => some.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: columns[i][1] }, cell ?? ""))));
  const folded = rows.length > most && !unfolded.has(label);
  const body = h("tbody", {}, lines(folded ? rows.slice(0, most) : rows));
  const region = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))), body));
  const unfold = (event) => {
    unfolded.add(label);
    body.append(...lines(rows.slice(most)));
    event.target.remove();
    region.focus({ preventScroll: true });
  };
  if (folded) region.append(h("button", { type: "button", class: "link", onclick: unfold }, `Show all ${count(rows.length)}`));
  return region;
}

export const count = (number) => (number === null || number === undefined ? "" : number.toLocaleString("en"));

export function ms(number) {
  if (number === null || number === undefined) return "";
  if (number < 1000) return `${number} ms`;
  if (number < 60000) return `${(number / 1000).toFixed(2)} s`;
  const seconds = Math.round(number / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

export function bytes(number) {
  if (!number) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (number >= 1000 && i < units.length - 1) { number /= 1000; i += 1; }
  return `${i ? number.toFixed(1) : number} ${units[i]}`;
}

// Times are of this machine's zone, or in UTC.
const ZONE = "snapkafka-zone";
export const inUtc = () => localStorage.getItem(ZONE) === "UTC";
export const keepZone = (utc) => localStorage.setItem(ZONE, utc ? "UTC" : "local");
export const time = (at) => new Date(at).toLocaleString([], { year: "numeric", month: "short", day: "numeric",
  hour: "numeric", minute: "numeric", second: "numeric", timeZoneName: "short", timeZone: inUtc() ? "UTC" : undefined });

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en");

// How long ago, the exact time on hovering.
export function ago(at) {
  const seconds = (at - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, many]) => Math.abs(seconds) >= many) ?? UNITS.at(-1);
  return h("time", { datetime: new Date(at).toISOString(), title: time(at) }, relative.format(Math.trunc(seconds / size), unit));
}

// Until when the log keeps what a restore needs; what is over is red.
export function restorable(told) {
  if (!told) return "";
  const mark = (kind, text) => h("span", { class: kind, title: told.why }, text);
  if (told.how === "always") return "as long as its topics exist";
  if (told.how === "gone") return mark("bad", `expired: ${told.topic}`);
  if (!told.until) return mark("warn", "unknown");
  const over = Date.parse(told.until) < Date.now();
  if (told.how === "from") return over ? mark("warn", `not guaranteed since ${time(told.until)}`) : `at least ${time(told.until)}`;
  return over ? mark("bad", `expired ${time(told.until)}`) : time(told.until);
}

export function mood(row) {
  if (row.failure || /INCONSISTENT/.test(row.verdict ?? "")) return "bad";
  if (row.contaminated || /UNVERIFIABLE/.test(row.verdict ?? "")) return "warn";
  if (row.status === "INITIATED" || row.status === "CAPTURING") return "running";
  return row.verdict ? "good" : "";
}

export async function copy(text, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = `copied: ${text}`;
  } catch {
    status.textContent = text;
  }
}
