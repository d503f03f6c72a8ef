// How long snapshots take, how large they are and how they end: of those that are listed.
import { bytes, count, h, mood, ms } from "./dom.js";

// The nearest rank: the least value that so large a part of all does not exceed.
const quantile = (sorted, part) => sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];

// A bar for each snapshot, the oldest first, and lines at p50 and p99.
function chart(name, rows, of, text) {
  if (!rows.length) return null;
  const values = rows.map(of);
  const sorted = [...values].sort((a, b) => a - b);
  const [p50, p99, most] = [quantile(sorted, 0.5), quantile(sorted, 0.99), Math.max(1, sorted.at(-1))];
  const said = `${name} of ${count(rows.length)}: p50 ${text(p50)}, p99 ${text(p99)}`;
  const part = (value) => `${(95 * value) / most}%`;
  const bars = rows.map((row) => {
    const bar = h("i", { class: `bar ${mood(row)}`, title: `${row.snapshot_id}: ${text(of(row))}` });
    bar.style.height = part(of(row));
    return bar;
  });
  const lines = [["p50", p50], ["p99", p99]].map(([kind, value]) => {
    const line = h("i", { class: kind });
    line.style.bottom = part(value);
    return line;
  });
  return h("figure", {}, h("figcaption", {}, said), h("div", { class: "chart", role: "img", "aria-label": said }, bars, lines));
}

function outcomes(rows) {
  const found = new Map();
  for (const row of rows) {
    const name = row.verdict ?? row.status;
    found.set(name, { mood: mood(row), number: (found.get(name)?.number ?? 0) + 1 });
  }
  const parts = [...found].sort(([, one], [, other]) => other.number - one.number);
  return h("figure", {}, h("figcaption", {}, `Outcomes of ${count(rows.length)}`),
    h("ul", { class: "outcomes" }, parts.map(([name, one]) => h("li", { class: one.mood }, `${name} ${count(one.number)}`))));
}

export function charts(place, rows) {
  place.hidden = !rows.length;
  const oldest = [...rows].reverse();
  const over = oldest.filter((row) => row.status === "CAPTURED" || row.status === "COMPLETED");
  place.querySelector("div").replaceChildren(...[
    chart("Duration", over, (row) => row.duration_ms, ms), chart("Size", oldest.filter((row) => row.assembled), (row) => row.total_size_bytes, bytes),
    outcomes(rows)].filter(Boolean));
}
