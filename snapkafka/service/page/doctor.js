// What `snapkafka doctor` finds: what would spoil a snapshot.
import { get } from "./api.js";
import { count, h } from "./dom.js";

const MOODS = { problem: "bad", warning: "warn", note: "" };
let shown = "";

export async function doctor(place) {
  let told;
  try {
    told = await get("/v1/doctor");
  } catch (error) {
    told = { found: [{ code: error.code, weight: "warning", what: `Not examined: ${error.message}`, do: error.hint ?? "" }] };
  }
  if (JSON.stringify(told) === shown) return;
  shown = JSON.stringify(told);
  const number = (weight) => told.found.filter((one) => one.weight === weight).length;
  const numbers = ["problem", "warning", "note"].filter(number).map((weight) => `${count(number(weight))} ${weight}${number(weight) > 1 ? "s" : ""}`);
  const worst = ["problem", "warning"].find(number);
  place.hidden = false;
  place.replaceChildren(h("details", { open: worst === "problem" && matchMedia("(min-width: 701px)").matches },
    h("summary", {}, h("h2", {}, "Doctor: ", h("span", { class: MOODS[worst] ?? "good" }, numbers.join(", ") || "nothing found"))),
    h("ul", {}, told.found.map((one) => h("li", {}, h("span", { class: MOODS[one.weight] }, `${one.weight}: `), one.what,
      one.do ? h("div", { class: "why" }, one.do) : null)))));
}
