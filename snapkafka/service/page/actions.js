// What a client may do by its role: take a snapshot, assemble one, abort one.
import { get, path, post } from "./api.js";
import { h } from "./dom.js";

const RANK = { read: 1, trigger: 2, admin: 3 };
const JOB_MS = 1000;
const jobs = new Map(); // epoch -> what its job does, which a page that is drawn again shows again
let access = { role: "read", storage_roots: [] };
const may = (role) => RANK[access.role] >= RANK[role];
const said = (error) => `${error.message} ${error.hint ?? ""}`.trim();

// The form for a new snapshot; `taken` gets its epoch.
export async function taking(place, row, taken) {
  access = await get("/v1/access");
  place.hidden = !may("trigger") || !access.storage_roots.length;
  if (place.hidden || place.querySelector("form")) return;
  const kind = h("select", {}, h("option", {}, "full"), h("option", {}, "incremental"));
  const storage = h("input", { type: "text", size: "32", required: true, spellcheck: "false", autocomplete: "off", list: "roots" });
  storage.value = row?.target_storage_uri || access.storage_roots[0];
  const answer = h("p", { class: "bad", role: "alert" });
  const button = h("button", {}, "Take it");
  const take = async (event) => {
    event.preventDefault();
    answer.textContent = "";
    button.disabled = true; // two clicks are one snapshot
    try {
      const found = await post("/v1/snapshots/trigger", { initiated_by_node_id: "the page", snapshot_type: kind.value, target_storage_uri: storage.value });
      place.open = false;
      taken(found.epoch);
    } catch (error) {
      answer.textContent = said(error);
    }
    button.disabled = false;
  };
  place.append(h("form", { class: "line", onsubmit: take }, h("label", {}, "Type ", kind), h("label", {}, "Storage ", storage),
    h("datalist", { id: "roots" }, access.storage_roots.map((root) => h("option", { value: root }))), button, answer));
}

function paint(epoch) {
  const place = document.querySelector(`.job[data-epoch="${epoch}"]`);
  const job = jobs.get(epoch);
  if (!place || !job) return;
  place.className = `job ${job.mood ?? ""}`;
  place.textContent = job.text;
  for (const button of place.parentElement.querySelectorAll("button")) button.disabled = job.runs;
}

function note(epoch, text, mood = "", runs = false) {
  jobs.set(epoch, { text, mood, runs });
  paint(epoch);
}

async function assemble(epoch, changed) {
  note(epoch, "asked for", "", true);
  try {
    let job = await post(path(String(epoch), "/assemble"), {});
    while (job.state === "queued" || job.state === "running") {
      note(epoch, `${job.state} ${job.last_line}`, "", true);
      await new Promise((done) => setTimeout(done, JOB_MS));
      job = await get(`/v1/jobs/${encodeURIComponent(job.job_id)}`);
    }
    if (job.state === "done") note(epoch, `assembled: ${job.verdict}`);
    else note(epoch, job.error ? `${job.error.problem} ${job.error.hint}` : job.state, "bad");
  } catch (error) {
    note(epoch, said(error), "bad");
  }
  changed();
}

async function abort(epoch, changed) {
  try {
    await post(path(String(epoch), "/abort"), {});
    note(epoch, "aborted");
  } catch (error) {
    note(epoch, said(error), "bad");
  }
  changed();
}

// The buttons of a snapshot; `changed` is called when it may have changed.
export function actions(told, changed) {
  const buttons = [];
  if (told.status === "CAPTURED" && may("trigger")) {
    buttons.push(h("button", { type: "button", onclick: () => assemble(told.epoch, changed) }, "Assemble and verify"));
  }
  if ((told.status === "INITIATED" || told.status === "CAPTURING") && may("admin")) {
    const sure = h("span", { hidden: true }, ` ${told.snapshot_id} ends for good. `, h("button", { type: "button", onclick: () => abort(told.epoch, changed) }, "Yes, abort it"));
    buttons.push(h("button", { type: "button", "aria-expanded": "false", onclick: ({ target }) => {
      sure.hidden = !sure.hidden;
      target.setAttribute("aria-expanded", String(!sure.hidden));
    } }, "Abort"), sure);
  }
  const place = h("div", { class: "actions" }, buttons, " ", h("span", { class: "job", role: "status", "data-epoch": told.epoch }));
  queueMicrotask(() => paint(told.epoch));
  return place;
}
