// Restores and forks, to look at: acting is done by the command.
import { get } from "./api.js";
import { count, h, table, time } from "./dom.js";

const STAGES = { begun: "running", creating: "running", ready: "good", done: "good", aborted: "warn" };
const when = (at) => (at ? time(at) : "");
const expired = (fork) => fork.expires_ms && fork.expires_ms <= Date.now();
const staged = (stage, reason = "", mood = STAGES[stage] ?? "") => [h("span", { class: `status ${mood}` }, stage), reason ? h("div", { class: "why" }, reason) : ""];
let told = "";

export async function recovery(place, anew = false) {
  const [{ restores }, { forks }] = await Promise.all([get("/v1/restores"), get("/v1/forks")]);
  const now = JSON.stringify([restores, forks]);
  if (now === told && !anew) return;
  told = now;
  place.hidden = !restores.length && !forks.length;
  place.replaceChildren(...[
    restores.length ? h("h2", {}, "Restores") : null,
    restores.length ? table([["Stage"], ["Snapshot"], ["Apps"], ["Begun"], ["Ended"], ["By"], ["Plan"]],
      restores.map((one) => [staged(one.stage, one.reason), one.snapshot_id,
        one.apps.join(", "), when(one.begun_at), when(one.closed_at),
        one.initiated_by_node_id, one.plan]), "Restores") : null,
    forks.length ? h("h2", {}, "Forks and drills") : null,
    forks.length ? table([["Fork"], ["Stage"], ["Snapshot"], ["Apps"], ["Topics", "number"], ["Created"], ["Expires"], ["By"]],
      forks.map((one) => [one.fork, staged(one.stage, "", expired(one) ? "warn" : undefined), one.snapshot_id, one.apps.join(", "), count(one.topics.length), when(one.created_ms),
        expired(one) ? `${when(one.expires_ms)}, expired` : one.expires_ms ? when(one.expires_ms) : "never", one.initiated_by_node_id]), "Forks") : null,
  ].filter(Boolean));
}
