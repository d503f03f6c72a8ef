// The space-time diagram and its gestures: lines are hidden and collapsed, messages filtered and followed. The service
// places everything; here lines move up and down alone, so that every order from left to right stays as it was.
import { h } from "./dom.js";

const HELP = "Click a message to follow its causes, or take the left and right arrow keys here. "
  + "Double-click hides a line; shift+click collapses the lines of its app into one, and opens them again.";
const GAP_MOST = 58;
const NAMES_MAX = 60;
const STUB = 12; // of a message that does not cross a cut, where there are too many lines for arrows
const numbers = (text) => text.match(/-?[\d.]+/g).map(Number);
const pieces = (svg, selector) => [...svg.querySelectorAll(selector)];
const show = (element, shown) => (shown ? element.removeAttribute("display") : element.setAttribute("display", "none"));

// `drawn()` answers with the SVG as text.
export function makeDiagram(id, drawn) {
  const hidden = new Set();
  const collapsed = new Set();
  const region = h("div", { class: "diagram", tabindex: "0", role: "region", "aria-label": "Space-time diagram" });
  const chain = h("p", { class: "hint", "aria-live": "polite" }, HELP);
  const lines = h("select", { "aria-label": "Lines" });
  const words = h("input", { type: "search", size: "16", spellcheck: "false", autocomplete: "off" });
  const left = h("span", { class: "hint", role: "status" });
  const button = (name, act) => h("button", { type: "button", onclick: act }, name);
  const svg = () => region.querySelector("svg.cut");

  function chosen(act) {
    const [kind, name] = lines.value.split(/:(.*)/s);
    for (const lane of pieces(svg(), "g.lane")) {
      if ((kind === "app" ? lane.dataset.app : lane.dataset.process) === name) act(lane);
    }
    arrange();
  }
  const flip = (set, name) => (set.has(name) ? set.delete(name) : set.add(name));
  const collapse = () => {
    const apps = new Set();
    chosen((lane) => apps.add(lane.dataset.app));
    for (const app of apps) flip(collapsed, app);
    arrange();
  };
  const all = () => {
    hidden.clear();
    collapsed.clear();
    words.value = "";
    arrange();
  };
  const bar = h("form", { class: "gestures", role: "search", hidden: true, onsubmit: (event) => event.preventDefault() },
    h("label", {}, "Messages with ", words), h("label", {}, "Lines ", lines),
    button("Hide", () => chosen((lane) => hidden.add(lane.dataset.process))), button("Collapse or open", collapse), button("Show all", all), left);
  words.addEventListener("input", () => arrange());

  function fill() {
    const lanes = pieces(svg(), "g.lane");
    const apps = [...new Set(lanes.map((lane) => lane.dataset.app))];
    const option = (value, name) => h("option", { value }, name);
    lines.replaceChildren(...apps.map((app) => option(`app:${app}`, `app ${app}`)),
      ...lanes.map((lane) => option(`process:${lane.dataset.process}`, lane.querySelector(".name").textContent)));
    bar.hidden = !lanes.length;
  }

  let few = true; // lines: every message is an arrow

  function arrange() {
    const cut = svg();
    const lanes = cut ? pieces(cut, "g.lane") : [];
    if (!lanes.length) return;
    const home = new Map(lanes.map((lane) => [lane.dataset.process, Number(lane.querySelector("line").getAttribute("y1"))]));
    const ys = [...home.values()];
    const gap = ys.length > 1 ? ys[1] - ys[0] : GAP_MOST;
    const [top, height] = [ys[0] - gap / 2, gap * ys.length];
    const rows = new Map();
    const one = new Map(); // collapsed app -> the process whose line stands for it
    let count = 0;
    for (const lane of lanes) {
      const { process, app } = lane.dataset;
      if (hidden.has(process)) continue;
      if (one.has(app)) {
        rows.set(process, rows.get(one.get(app)));
        continue;
      }
      if (collapsed.has(app)) one.set(app, process);
      rows.set(process, count);
      count += 1;
    }
    const step = Math.min(Math.max(GAP_MOST, gap), height / Math.max(1, count));
    const y = (process) => top + step * (rows.get(process) + 0.5);
    for (const piece of pieces(cut, "[data-process]")) {
      const { process } = piece.dataset;
      show(piece, rows.has(process));
      if (rows.has(process)) piece.setAttribute("transform", `translate(0 ${y(process) - home.get(process)})`);
    }
    for (const lane of lanes) {
      const { process, app } = lane.dataset;
      const name = lane.querySelector(".name");
      name.dataset.own ??= name.textContent;
      const of = lanes.filter((other) => other.dataset.app === app && rows.has(other.dataset.process)).length;
      if (collapsed.has(app)) show(lane, one.get(app) === process);
      name.textContent = one.get(app) === process && of > 1 ? `${app}, ${of} processes` : name.dataset.own;
      name.setAttribute("visibility", count <= NAMES_MAX ? "visible" : "hidden");
    }
    few = count < Number(cut.dataset.glyphsFrom);
    const away = messages(cut, rows, y);
    const bottom = top + step * count;
    curve(cut.querySelector(".curve"), points(cut, "circle.point", (point) => Number(point.getAttribute("cx")), rows, y), top, bottom);
    const up = bottom - top - height;
    cut.querySelector(".legend").setAttribute("transform", `translate(0 ${up})`);
    const [, , width, tall] = numbers(cut.dataset.home ??= cut.getAttribute("viewBox"));
    cut.setAttribute("viewBox", `0 0 ${width} ${tall + up}`);
    cut.setAttribute("height", tall + up);
    const more = lanes.length - rows.size;
    left.textContent = more || away ? `hidden here: lines ${more}, messages ${away}` : "";
  }

  // Arrows follow their lines; a message shows if both of its lines do, and it has the words.
  function messages(cut, rows, y) {
    const wanted = words.value.toLowerCase();
    let away = 0;
    for (const message of pieces(cut, "g.message")) {
      const { sender, receiver } = message.dataset;
      const shown = rows.has(sender) && rows.has(receiver) && message.querySelector("title").textContent.toLowerCase().includes(wanted);
      show(message, shown);
      away += shown ? 0 : 1;
      if (!shown) continue;
      const ends = numbers(message.dataset.home ??= message.querySelector("path").getAttribute("d"));
      message.ends = [ends[0], y(sender), ends.at(-2), y(receiver)];
      message.querySelector("circle")?.setAttribute("cy", y(sender));
      line(message);
    }
    return away;
  }

  // A message as an arrow, or as what is about its two ends: then the whole of it is drawn while it is pointed at.
  function line(message, pointed = false) {
    if (!message.ends) return; // hidden from the beginning
    const [x1, y1, x2, y2] = message.ends;
    const far = Math.hypot(x2 - x1, y2 - y1);
    const whole = few || pointed || far <= 3 * STUB || /\b(flight|backward|traced)\b/.test(message.getAttribute("class"));
    const [dx, dy] = [((x2 - x1) * STUB) / far, ((y2 - y1) * STUB) / far];
    const path = !whole ? `M${x1},${y1} L${x1 + dx},${y1 + dy} M${x2 - dx},${y2 - dy} L${x2},${y2}`
      : y1 === y2 ? `M${x1},${y1} Q${(x1 + x2) / 2},${y1 - 40} ${x2},${y2}` : `M${x1},${y1} L${x2},${y2}`;
    for (const piece of message.querySelectorAll("path")) piece.setAttribute("d", path);
  }

  function points(cut, selector, x, rows, y) {
    return pieces(cut, `[data-process] > ${selector}`)
      .map((point) => [x(point), point.parentNode.dataset.process])
      .filter(([, process]) => rows.has(process))
      .map(([at, process]) => [at, y(process)])
      .sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  }

  function curve(path, through, top, bottom) {
    if (!path) return;
    show(path, through.length > 0);
    if (!through.length) return;
    let [[x1], y1] = [through[0], top - 4];
    let d = `M${x1},${y1}`;
    for (const [x2, y2] of [...through, [through.at(-1)[0], bottom + 4]]) {
      const middle = (y1 + y2) / 2;
      d += ` C${x1},${middle} ${x2},${middle} ${x2},${y2}`;
      [x1, y1] = [x2, y2];
    }
    path.setAttribute("d", d);
  }

  // The causes of a message, as far as the picture holds them; the command has the others.
  function follow(clicked) {
    for (const one of pieces(region, ".traced")) {
      one.classList.remove("traced");
      line(one);
    }
    if (!clicked) {
      chain.replaceChildren(HELP);
      return;
    }
    const known = new Map(pieces(region, "g.message").map((one) => [one.dataset.at, one]));
    const places = [];
    let last = null;
    for (let one = clicked; one && !one.classList.contains("traced"); one = known.get(one.dataset.cause)) {
      one.classList.add("traced");
      line(one);
      places.push(one.dataset.at);
      last = one;
    }
    const more = last.dataset.cause && !known.has(last.dataset.cause) ? ` because of ${last.dataset.cause}, not drawn` : "";
    chain.replaceChildren(`${clicked.querySelector("title").textContent.split("\n").slice(1).join("; ")}. `,
      `${places.join(" because of ")}${more}. `, trace(places[0]));
  }

  function trace(at) {
    const [, topic, partition, offset] = /^(.*)\[(\d+)\] offset (-?\d+)$/.exec(at);
    return h("code", {}, `snapkafka trace ${topic} ${partition} ${offset}`);
  }

  // From a list beside the picture: the message at this place.
  function point(at) {
    const found = pieces(region, "g.message").find((one) => one.dataset.at === at);
    if (found?.hasAttribute("display")) all();
    follow(found);
    if (!found) chain.replaceChildren(`${at} is not drawn. `, trace(at));
    region.scrollIntoView({ block: "nearest" });
    region.focus({ preventScroll: true });
  }

  region.addEventListener("click", (event) => {
    const lane = event.target.closest("g.lane");
    if (lane && event.shiftKey) {
      flip(collapsed, lane.dataset.app);
      arrange();
    } else follow(event.target.closest("g.message"));
  });
  region.addEventListener("dblclick", (event) => {
    const lane = event.target.closest("g.lane");
    if (!lane) return;
    getSelection().removeAllRanges();
    if (collapsed.has(lane.dataset.app)) {
      for (const other of pieces(svg(), "g.lane")) if (other.dataset.app === lane.dataset.app) hidden.add(other.dataset.process);
    } else hidden.add(lane.dataset.process);
    arrange();
  });
  for (const [name, pointed] of [["mouseover", true], ["mouseout", false]]) {
    region.addEventListener(name, (event) => {
      const message = few ? null : event.target.closest("g.message");
      if (message) line(message, pointed);
    });
  }
  region.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const from = (one) => one.ends[0];
    const there = pieces(region, "g.message:not([display])").sort((a, b) => from(a) - from(b));
    if (!there.length) return;
    event.preventDefault();
    const at = there.indexOf(region.querySelector("g.message.current"));
    const next = there[at < 0 ? (step > 0 ? 0 : there.length - 1) : (at + step + there.length) % there.length];
    for (const one of pieces(region, ".current")) one.classList.remove("current");
    next.classList.add("current");
    follow(next);
  });

  async function draw() {
    try {
      const read = new DOMParser().parseFromString(await drawn(), "image/svg+xml");
      region.replaceChildren(document.importNode(read.documentElement, true));
      fill();
      arrange();
    } catch (error) {
      region.replaceChildren(h("p", { class: "why" }, `${error.message} ${error.hint ?? ""}`));
      bar.hidden = true;
    }
  }

  return { parts: [bar, region, chain], draw, point };
}
