// Restores and forks, to look at: acting is done by the command.
import { get } from "./api.js";
import { count, h, table } from "./dom.js";

let told = "";

export async function recovery(place) {
  const [{ restores }, { forks }] = await Promise.all([get("/v1/restores"), get("/v1/forks")]);
  const now = JSON.stringify([restores, forks]);
  if (now === told) return;
  told = now;
  place.hidden = !restores.length && !forks.length;
  place.replaceChildren(...[
    restores.length ? h("h2", {}, "Restores") : null,
    restores.length ? table([["Stage"], ["Snapshot"], ["Apps"], ["Phase"], ["Records", "number"], ["Begun"], ["Committed"], ["Ended"], ["By"], ["Plan"]],
      restores.map((one) => [one.reason ? `${one.stage}: ${one.reason}` : one.stage, one.only ? `${one.snapshot_id}, a part` : one.snapshot_id,
        one.apps.join(", "), one.phase, one.total ? `${count(one.records)} of ${count(one.total)}` : "", one.begun_at, one.ready_at, one.closed_at,
        one.initiated_by_node_id, one.plan]), "Restores") : null,
    forks.length ? h("h2", {}, "Forks and drills") : null,
    forks.length ? table([["Fork"], ["Stage"], ["Snapshot"], ["Apps"], ["Topics", "number"], ["Created"], ["Expires"], ["By"]],
      forks.map((one) => [one.fork, one.stage, one.snapshot_id, one.apps.join(", "), count(one.topics), one.created_at,
        one.expired ? `${one.expires_at}, expired` : one.expires_at ?? "never", one.initiated_by_node_id]), "Forks") : null,
  ].filter(Boolean));
}
