// The invariants that snapshots evaluate: whether each holds, in which snapshot it broke, and the violating rows.
import { get } from "./api.js";
import { ago, count, h, table } from "./dom.js";

const MOODS = { holds: "good", violated: "bad", unproven: "warn" };
let shown = "";

const link = (one) => (one ? [h("a", { href: `#${one.epoch}` }, one.snapshot_id), " ", ago(one.initiated_at_ms)] : "none");

function violations(told) {
  return h("div", {}, told.violations.map((one, i) => h("div", {}, h("h4", {}, i || told.broke?.epoch !== one.epoch ? "Violated last in " : "Broke first in ", one.snapshot_id),
    one.unreadable ? h("p", { class: "why" }, one.unreadable)
      : h("ul", { class: "witnesses" }, one.rows.map((row) => h("li", {}, row.topic && row.offset >= 0 ? `${row.topic}[${row.partition}] offset ${row.offset}: ` : "", row.what)),
        one.found > one.rows.length ? h("li", {}, `${count(one.found - one.rows.length)} more`) : null))));
}

export async function invariants(place) {
  const { invariants: found } = await get("/v1/invariants");
  if (JSON.stringify(found) === shown) return;
  const violated = await Promise.all(found.filter((one) => one.holding === "violated").map((one) => get(`/v1/invariants/${encodeURIComponent(one.name)}`)));
  shown = JSON.stringify(found);
  place.hidden = !found.length;
  place.replaceChildren(h("h2", {}, "Invariants"),
    table([["Invariant"], ["State"], ["Rows", "number"], ["Held last in"], ["Broke first in"]],
      found.map((one) => [one.name, h("span", { class: `status ${MOODS[one.holding]}` }, one.holding === "unproven" && one.not_evaluated_since ? ["not evaluated since ", link(one.not_evaluated_since)] : one.holding), count(one.last?.found), link(one.last_ok), one.broke ? link(one.broke) : ""]), "Invariants"),
    ...violated.map((one) => h("details", { open: violated.length === 1 }, h("summary", {}, `${one.name}: rows that violate it`), violations(one))));
}
