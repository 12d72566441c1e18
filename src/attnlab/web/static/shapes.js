"use strict";
// Parts without a model: queries and weights, masks, positions and feature maps, drawn anew as their options change.
import { announce } from "/static/live.js";
import * as address from "/static/address.js";
import { byId, fixed, make, percent, sections, shade, short } from "/static/asking.js";
import { HeatMap } from "/static/heat_map.js";
import { question, remember, settled } from "/static/question.js";

const PLACE = "/api/ask/{}";
const form = (name) => byId(name).querySelector("form");

// Asks anew whenever something in the form changes, after a moment.
const following = (name, work) => {
  const own = form(name);
  const run = question(own, PLACE, work);
  const soon = settled(run, 120);
  own.addEventListener("input", (event) => {
    const shown = event.target.parentElement.querySelector("output");
    if (shown) shown.textContent = event.target.value;
    soon();
  });
  return run;
};

// Options of what is not chosen are neither shown nor asked about.
const showOptions = (form, ...fields) => {
  const show = () => {
    const chosen = fields.map((name) => form.elements[name].value);
    form.querySelectorAll("[data-of]").forEach((label) => {
      label.hidden = !chosen.includes(label.dataset.of);
      label.querySelector("input").disabled = label.hidden;
    });
  };
  form.addEventListener("input", show);
  show();
};

// ---------------------------------------------------------------- a curve
// Drawn at the width that there is, and anew when that changes.
const charts = new Map();
const chart = (host, lines, about) => {
  const known = charts.has(host);
  charts.set(host, () => drawChart(host, lines, about));
  charts.get(host)();
  let width = host.clientWidth;
  if (!known) new ResizeObserver(() => { if (host.clientWidth && host.clientWidth !== width) { width = host.clientWidth; charts.get(host)(); } }).observe(host);
};
const drawChart = (host, lines, { x, y, sentence }) => {
  const [wide, high, left, below, right] = [Math.min(640, host.clientWidth || 640), 220, 48, 40, 12];
  const all = lines.flatMap((line) => line.points);
  const range = (values) => { const [low, top] = [Math.min(...values), Math.max(...values)]; return top - low < 1e-9 ? [low - 0.5, top + 0.5] : [low, top]; };
  const [[x0, x1], [y0, y1]] = [range(all.map(([a]) => a)), range(all.map(([, b]) => b))];
  const across = (a) => left + ((a - x0) / (x1 - x0)) * (wide - left - right);
  const up = (b) => 12 + (1 - (b - y0) / (y1 - y0)) * (high - below - 12);
  const ticks = [y0, (y0 + y1) / 2, y1];
  const svg = make("svg", { width: wide, height: high, role: "img", "aria-label": sentence, class: "chart-svg" },
    ticks.map((tick) => [make("line", { x1: left, x2: wide - right, y1: up(tick), y2: up(tick), class: "gridline" }), make("text", { x: left - 6, y: up(tick) + 4, "text-anchor": "end" }, short(tick))]).flat(),
    [x0, x1].map((tick, n) => make("text", { x: across(tick), y: high - below + 18, "text-anchor": n ? "end" : "start" }, short(tick))),
    make("text", { x: (left + wide - right) / 2, y: high - 4, "text-anchor": "middle" }, x),
    lines.map((line, n) => make("polyline", { points: line.points.map(([a, b]) => `${across(a).toFixed(1)},${up(b).toFixed(1)}`).join(" "), class: "curve", style: `stroke: var(--arm-${lines.length > 1 ? n + 1 : 0})` })));
  const legend = lines.length > 1 ? make("ul", { class: "legend" }, lines.map((line, n) => make("li", {}, make("i", { class: "legend-swatch", style: `background: var(--arm-${n + 1})` }), line.name))) : null;
  host.replaceChildren(make("p", { class: "fine" }, y), ...(legend ? [legend] : []), svg);
};

// ---------------------------------------------------------------- queries and weights
const solving = () => {
  const own = form("query");
  const host = byId("weights");
  const given = (address.read()[1].get("weights") ?? "").split(" ").map(Number);
  let [wanted, ready, moved] = [[], "", false];
  const normal = (values) => { const total = values.reduce((sum, value) => sum + value, 0); return total > 0 ? values.map((value) => value / total) : values.map(() => 1 / values.length); };

  // One weight is set, and the others share what is left as they did before.
  const set = (place, value) => {
    const left = wanted.reduce((sum, weight, n) => sum + (n === place ? 0 : weight), 0);
    const rest = wanted.length - 1;
    wanted = wanted.map((weight, n) => (n === place ? value : left > 1e-9 ? (weight / left) * (1 - value) : (1 - value) / rest));
  };
  const build = (count) => {
    host.replaceChildren(...Array.from({ length: count }, (_, n) =>
      make("div", { class: "weight" },
        make("label", { for: `weight-${n}` }, `key ${n}`),
        make("input", { type: "range", id: `weight-${n}`, min: 0, max: 1, step: 0.01, value: wanted[n], oninput: (event) => { set(n, Number(event.target.value)); moved = true; showWanted(); soon(); } }),
        make("output", { for: `weight-${n}` }),
        make("span", { class: "reached", title: "what the query reaches" }, make("i")),
        make("span", { class: "reached-told" }))));
    showWanted();
  };
  const showWanted = () => [...host.children].forEach((row, n) => {
    const slider = row.querySelector("input");
    if (document.activeElement !== slider || Math.abs(Number(slider.value) - wanted[n]) > 0.006) slider.value = wanted[n];
    slider.setAttribute("aria-valuetext", `${percent(wanted[n])} wanted of key ${n}`);
    row.querySelector("output").textContent = percent(wanted[n]);
  });

  const keep = () => remember(own, { weights: moved ? wanted.map((weight) => Number(weight.toFixed(3))).join(" ") : "" });
  const rows = (text) => text.split(";").map((row) => row.trim()).filter(Boolean).map((row) => row.split(/[\s,]+/).map(Number));
  const run = question(own, PLACE, async (values, ask) => {
    const keys = rows(values.keys);
    if (keys.flat().some(Number.isNaN)) throw new Error("Keys are rows of numbers with ; between them, such as 0,1,2; 1,1,2.");
    if (keys.length !== wanted.length) {
      moved = given.length === keys.length && given.every((weight) => weight >= 0);
      wanted = normal(moved ? given.splice(0) : keys.map((_, n) => (n === 0 ? 0.7 : 0.3 / Math.max(1, keys.length - 1))));
      build(keys.length);
      keep();
    }
    if (keys.length < 2) throw new Error("One key always has all of the weight; give two or more.");
    const done = await ask("query", { keys, target: normal(wanted), scale: values.scale ?? 1 });
    byId("query-outcome").textContent = done.outcome;
    byId("query-reason").textContent = done.reason;
    [...host.children].forEach((row, n) => {
      row.querySelector(".reached i").style.width = `${(100 * done.weights[n]).toFixed(1)}%`;
      row.querySelector(".reached-told").textContent = `reached ${percent(done.weights[n])}`;
    });
    const facts = [["query", `(${done.query.map((value) => short(value)).join(", ")})`], ["its length", short(done.length)], ["largest error", percent(done.error)], ["divergence", `${short(done.divergence)} nats`], ["smallest scale along its direction", done.how === "limit" ? short(done.smallest_scale) : "–"]];
    byId("query-facts").replaceChildren(make("dl", { class: "facts" }, facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))));
    plane(done);
    keep();
    if (ready !== byId("query-outcome").textContent) announce((ready = byId("query-outcome").textContent));
  });
  const soon = settled(run, 60);
  own.addEventListener("input", (event) => {
    if (event.target.name === "example" && own.elements.keys.value !== event.target.value) { own.elements.keys.value = event.target.value; wanted = []; }
    soon();
  });
  byId("even").addEventListener("click", () => { wanted = wanted.map(() => 1 / wanted.length); moved = true; showWanted(); soon(); });
  own.elements.keys.defaultValue = own.elements.keys.value = own.elements.example.value;
  return run;
};

// Keys of two numbers as points, as large as their weights, and the query's direction.
const plane = ({ keys, query, weights, target }) => {
  const host = byId("plane");
  if (keys[0].length !== 2) return host.replaceChildren();
  const [size, middle] = [280, 140];
  const reach = 1.25 * Math.max(...keys.flat().map(Math.abs), 1e-9);
  const at = ([x, y]) => [middle + (x / reach) * middle, middle - (y / reach) * middle];
  const length = Math.hypot(...query) || 1;
  const [qx, qy] = at(query.map((value) => (value / length) * reach * 0.9));
  return host.replaceChildren(make("svg", { width: size, height: size, role: "img", class: "chart-svg plane", "aria-label": `${keys.length} keys in the plane and the direction of the query` },
    make("line", { x1: 0, x2: size, y1: middle, y2: middle, class: "gridline" }), make("line", { x1: middle, x2: middle, y1: 0, y2: size, class: "gridline" }),
    make("line", { x1: middle, y1: middle, x2: qx, y2: qy, class: "query-line" }), make("circle", { cx: qx, cy: qy, r: 4, class: "query-end" }),
    keys.map((key, n) => {
      const [x, y] = at(key);
      return [make("circle", { cx: x, cy: y, r: 4 + 16 * Math.sqrt(target[n]), class: "wanted-ring" }), make("circle", { cx: x, cy: y, r: 4 + 16 * Math.sqrt(weights[n]), class: "key-dot" }), make("text", { x: x > 0.8 * size ? x - 10 : x + 10, y: y - 12 - 16 * Math.sqrt(weights[n]), "text-anchor": x > 0.8 * size ? "end" : "start" }, `key ${n}`)];
    }).flat()),
  make("p", { class: "fine" }, "A disc is the weight that a key gets, a ring the one that is wanted, the line the query's direction."));
};

// ---------------------------------------------------------------- masks
const masks = () => {
  const own = form("mask");
  const map = new HeatMap(byId("mask-map"));
  showOptions(own, "kind", "attention");
  return following("mask", async (values, ask) => {
    const mask = values.kind === "window" ? `causal & window(size=${values.window ?? 4})` : values.kind;
    const attention = values.attention === "group" ? `group(groups=${values.groups ?? 2})` : "dot";
    const length = Math.max(1, values.text.split(/[\s|]+/).filter(Boolean).length + (values.padding ?? 0)); // groups are parts of it
    const done = await ask("mask", { masks: mask, set: [`model.attention=${attention}`, `model.length=${length}`], text: values.text, documents: values.documents, padding: values.padding ?? 0 });
    const names = done.words.map((word, n) => `${n} ${word}`);
    const [pairs] = Object.values(done.masks);
    byId("mask-headline").textContent = done.headline;
    byId("mask-remark").textContent = `${done.remark} Rows attend to columns.`;
    map.show({ title: "Who may attend to whom", rows: names, columns: names, values: pairs.map((row) => row.map((may) => (may ? 1 : null))), full: 1, binary: "may attend", forbidden: "may not",
      sentence: done.headline, said: (r, c, value) => `${names[r]} ${value === null ? "may not" : "may"} attend to ${names[c]}` });
  });
};

// ---------------------------------------------------------------- positions
const positions = () => {
  const own = form("positions");
  const [map, second] = [new HeatMap(byId("positions-map"), { most: 24 }), new HeatMap(byId("second-map"), { most: 24 })];
  const picker = byId("which-head").querySelector("select");
  const options = { rotary: (v) => `rotary(base=${(10 ** v.base).toPrecision(3) / 1})`, relative: (v) => `relative(clip=${v.clip})`, bucketed: (v) => `bucketed(buckets=${v.buckets})` };
  let last = null;
  const places = (count) => Array.from({ length: count }, (_, n) => String(n));
  const showGrid = () => {
    const grid = last.grids[Number(picker.value) || 0];
    const names = places(grid.values.length);
    const low = Math.min(...grid.values.flat());
    map.show({ title: byId("positions-title").textContent, rows: names, columns: names, values: grid.values, signed: low < 0,
      sentence: last.headline, said: (r, c, value) => `position ${r} and ${c}: ${short(value)}` });
  };
  picker.addEventListener("change", showGrid);
  showOptions(own, "scheme");
  return following("positions", async (values, ask) => {
    const width = values.heads * values.head_width;
    const scheme = options[values.scheme]?.(values) ?? values.scheme;
    const done = await ask("positions", { set: [`model.width=${width}`, `model.heads=${values.heads}`, `model.positions=${scheme}`], length: values.length });
    last = done;
    byId("positions-headline").textContent = done.headline;
    byId("positions-remark").textContent = done.remark;
    byId("positions-title").textContent = done.title;
    const before = picker.value;
    picker.replaceChildren(...done.grids.map((grid, n) => new Option(grid.name.replace("head ", ""), String(n))));
    picker.value = Number(before) < done.grids.length ? before || "0" : "0";
    byId("which-head").hidden = done.grids.length < 2;
    showGrid();
    const other = done.angles ?? done.vectors;
    byId("second-map").hidden = !other;
    byId("second-title").textContent = done.angles ? "Cosine of the angle by which each pair is turned" : done.vectors ? "The vector of each position" : "";
    if (other) {
      const drawn = done.angles ? other.map((row) => row.map(Math.cos)) : other;
      const unit = done.angles ? "pair" : "number";
      second.show({ title: byId("second-title").textContent, rows: places(drawn.length), columns: places(drawn[0].length), values: drawn, signed: true, side: 20,
        sentence: `${drawn.length} positions, ${drawn[0].length} ${unit}s of each.`,
        said: (r, c, value) => `position ${r}, ${unit} ${c}: ${done.angles ? `turned by ${fixed(done.angles[r][c], 3)}, cosine ` : ""}${short(value)}` });
    }
    chart(byId("by-distance"), done.curves.map((curve) => ({ name: curve.name, points: curve.mean.map((value, n) => [n, value]) })), { x: "distance between query and key, tokens", y: done.title.toLowerCase(), sentence: done.headline });
  });
};

// ---------------------------------------------------------------- feature maps
const features = () => following("features", async ({ feature }, ask) => {
  const done = await ask("feature_map", { feature });
  byId("feature-formula").textContent = done.formula;
  const points = done.x.map((x, n) => [x, done.y[n]]);
  const exponential = done.x.map((x) => [x, Math.exp(x)]).filter(([, y]) => y <= Math.max(...done.y));
  chart(byId("feature-plot"), [{ name: done.formula, points }, { name: "exp(x), to compare", points: exponential }], { x: "a number of a query or a key", y: "its feature", sentence: `${done.formula} from −4 to 4` });
});

const runs = { query: solving(), mask: masks(), positions: positions(), features: features() };
const asked = new Set();
sections(["query", "mask", "positions", "features", "models"], (name) => {
  if (runs[name] && !asked.has(name)) { asked.add(name); runs[name](); }
});
document.body.dataset.ready = "";
