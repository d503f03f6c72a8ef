// Processes that the ledger takes for living and whose Kafka session is over: the next snapshot would wait for them.
import { get } from "./api.js";
import { h } from "./dom.js";

const name = (one) => `process ${one.process} (${one.app} on ${one.host}, pid ${one.pid})`;

export async function sessions(place) {
  const { processes } = await get("/v1/processes");
  const over = processes.filter((one) => one.session === "over").map(name);
  place.hidden = !over.length;
  const text = over.length ? `Kafka session over: ${over.join(", ")}; the next snapshot waits for ${over.length > 1 ? "them" : "it"} until its time is over` : "";
  if (place.textContent !== text) place.replaceChildren(h("span", { class: "warn" }, text)); // a reader of screens hears it once
}
