"use strict";
// What pages share that ask a model: elements, forms that are answered in place, bars, tokens, maps of numbers.
import * as address from "/static/address.js";
import { announce, stream } from "/static/live.js";

export const byId = (id) => document.getElementById(id);

// An element with attributes and children; text is only ever text.
export const make = (tag, attributes = {}, ...children) => {
  const made = tag === "svg" || SHAPES.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
};
const SHAPES = new Set(["line", "path", "circle", "polygon", "g", "text", "rect", "polyline"]);

// ---------------------------------------------------------------- numbers as they are written
export const minus = (text) => String(text).replace(/^-/, "−");
export const fixed = (number, digits) => (number === null || number === undefined ? "–" : minus(number.toFixed(digits)));
export const percent = (share) => (share === null || share === undefined ? "–" : share > 0 && share < 0.001 ? "< 0.1%" : `${(100 * share).toFixed(1)}%`);
const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
export const short = (number) => {
  if (number === null || number === undefined) return "–";
  if (Math.abs(number) < 1e-9) return "0";
  if (Math.abs(number) >= 1e-4 && Math.abs(number) < 1e7) return minus(Number(number.toPrecision(3)));
  const [digits, power] = number.toExponential(1).split("e");
  return minus(`${digits} × 10${[...String(Number(power))].map((letter) => RAISED[letter]).join("")}`);
};
export const visible = (piece) => (piece === "" ? "∅" : piece.trim() === "" ? piece.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣") : piece.replaceAll("\n", "⏎"));

// ---------------------------------------------------------------- forms
// Asks for what a form holds; `work(values, ask)` shows the answer. One question at a time: the next one ends the last.
// What was asked is in the address, and asked again when that is opened; `more()` gives what is not in the form.
export const question = (form, place, work, more = () => ({})) => {
  let running = null;
  const section = form.closest("section").id;
  const said = form.querySelector("[data-said]");
  const stop = form.querySelector("[data-stop]");
  const tell = (text, wrong = false) => {
    said.textContent = text;
    said.classList.toggle("tone-wrong", wrong);
  };
  const run = async () => {
    running?.abort();
    const own = (running = new AbortController());
    form.setAttribute("aria-busy", "true");
    remember(form, more());
    if (stop) stop.hidden = false;
    tell("–");
    const ask = (action, values, part = () => {}) => stream(place.replace("{}", action), values, part, own.signal);
    try {
      const told = await work(valuesOf(form), ask, own.signal);
      if (running === own) tell(told ?? "");
    } catch (error) {
      if (running === own) tell(error.name === "AbortError" ? "Stopped." : error.message, error.name !== "AbortError");
    }
    if (running !== own) return;
    running = null;
    form.removeAttribute("aria-busy");
    if (stop) stop.hidden = true;
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  });
  stop?.addEventListener("click", () => running?.abort());
  const [name, values] = address.read();
  if (name === section && values.size) queueMicrotask(() => { address.fill(form, values); run(); });
  return run;
};

// Puts what a form holds into the address, and what else belongs to the view.
export const remember = (form, more = {}) => {
  const values = [...address.changed(form), ...Object.entries(more).filter(([, value]) => value !== "")];
  const follows = !form.querySelector(".primary"); // it asks by itself, with whatever is in it
  address.write(form.closest("section").id, values.length || follows ? values : [["asked", "as it is"]]);
};

// The fields of a form by name: numbers as numbers, empty ones left out.
export const valuesOf = (form) => {
  const values = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (field.type === "radio" && !field.checked)) continue;
    if (field.type === "checkbox") values[field.name] = field.checked;
    else if (field.type === "number" || field.type === "range") {
      if (field.value !== "") values[field.name] = Number(field.value);
    } else values[field.name] = field.value;
  }
  return values;
};

// Runs once nothing has been asked for a moment.
export const settled = (work, wait = 150) => {
  let timer = null;
  return () => { clearTimeout(timer); timer = setTimeout(work, wait); };
};

// ---------------------------------------------------------------- bars and tokens
export const bar = (share, title = "") =>
  make("span", { class: "share", "aria-hidden": "true", title }, make("i", { style: `width: ${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%` }));

export const table = (caption, heads, rows) =>
  make("table", { class: "answers" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", class: head.number ? "number" : null }, head.name ?? head)))),
    make("tbody", {}, rows.map((row) => make("tr", row.chosen ? { "data-chosen": true } : {},
      row.cells.map((cell, place) => make(place ? "td" : "th", { scope: place ? null : "row", class: heads[place].number ? "number" : null }, cell))))));

export const chances = (caption, rows, chosen = () => false) =>
  table(caption, [{ name: "token" }, { name: "probability", number: true }, { name: "" }],
    rows.map((row) => ({ chosen: chosen(row), cells: [make("bdi", { class: "piece" }, visible(row.piece)), percent(row.probability), bar(row.probability)] })));

// The ramp of all pages as a mix of its colours, for a share of the largest.
export const shade = (share, signed = false) => {
  const s = Math.max(signed ? -1 : 0, Math.min(1, share));
  if (signed) return `color-mix(in srgb, var(--${s < 0 ? "below" : "above"}) ${(100 * Math.abs(s)).toFixed(1)}%, var(--heat-0))`;
  const [stop, part] = s <= 0.35 ? [0, s / 0.35] : [1, (s - 0.35) / 0.65];
  return `color-mix(in srgb, var(--heat-${stop + 1}) ${(100 * part).toFixed(1)}%, var(--heat-${stop}))`;
};

// Text on the ramp: black or white, whichever can be read on that shade of either scheme (4.5:1 at the least).
export const shaded = (share) =>
  `background: ${shade(share)}; color: light-dark(${share < 0.632 ? "#000, " : "#fff, "}${share < 0.407 ? "#fff" : "#000"})`;

// Tokens of a text, one of which is chosen by pointer, Tab and arrow keys; `show(place)` tells more of it.
export class TokenRow {
  constructor(host, show) {
    [this.host, this.show, this.chosen, this.tokens] = [host, show, -1, []];
    host.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
      const ends = { Home: 0, End: this.tokens.length - 1 };
      if (!(event.key in moves) && !(event.key in ends)) return;
      event.preventDefault();
      const next = event.key in ends ? ends[event.key] : this.chosen + moves[event.key];
      this.choose(Math.max(0, Math.min(this.tokens.length - 1, next)), true);
    });
  }

  clear(...before) {
    [this.tokens, this.chosen] = [[], -1];
    this.host.replaceChildren(...before);
  }

  add(text, { label = text, style = null, look = "", before = "" } = {}) {
    const place = this.tokens.length;
    const token = make("span", { class: `token ${look}`, role: "button", tabindex: place ? -1 : 0, "aria-pressed": "false", "aria-label": label, style }, text);
    token.addEventListener("click", () => this.choose(place, true));
    token.addEventListener("focus", () => this.choose(place, false));
    token.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.choose(place, true); }
    });
    this.tokens.push(token);
    this.host.append(before, token);
    return token;
  }

  choose(place, focus) {
    if (!this.tokens[place]) return;
    if (place !== this.chosen) {
      this.tokens.forEach((token, n) => { token.setAttribute("aria-pressed", String(n === place)); token.tabIndex = n === place ? 0 : -1; });
      this.chosen = place;
      this.show(place);
    }
    if (focus && document.activeElement !== this.tokens[place]) this.tokens[place].focus({ preventScroll: true });
  }
}

// ---------------------------------------------------------------- a map of numbers
const cssColour = (name) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const mixed = (one, other, part) => `rgb(${one.map((channel, n) => Math.round(channel + (other[n] - channel) * part)).join(",")})`;
const paint = (signed) => {
  const heat = [0, 1, 2].map((n) => cssColour(`--heat-${n}`));
  const [below, above] = [cssColour("--below"), cssColour("--above")];
  return (share) => {
    if (signed) return mixed(heat[0], share < 0 ? below : above, Math.min(1, Math.abs(share)));
    const s = Math.max(0, Math.min(1, share));
    return s <= 0.35 ? mixed(heat[0], heat[1], s / 0.35) : mixed(heat[1], heat[2], (s - 0.35) / 0.65);
  };
};

// Rows and columns with names, a value or null (not allowed) in each cell; read by pointer and arrow keys. Its
// numbers are a table on request.
export class HeatMap {
  constructor(host, { most = 40 } = {}) {
    this.most = most;
    this.canvas = make("canvas", { role: "img" });
    this.ring = make("div", { class: "map-ring", hidden: true });
    this.box = make("div", { class: "map-box", tabindex: 0, role: "application", "aria-roledescription": "map of numbers" }, this.canvas, this.ring);
    this.told = make("p", { class: "map-read", role: "status" });
    this.key = make("p", { class: "grid-key" });
    this.numbers = make("details", { class: "grid-numbers" }, make("summary", {}, "Numbers"));
    host.replaceChildren(this.box, this.told, this.key, this.numbers);
    this.cell = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.numbers.addEventListener("toggle", () => this.list());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  // data: rows, columns (names), values, signed, full (the value of the fullest shade), title, said(row, column, value).
  show(data) {
    const flat = data.values.flat().filter((value) => value !== null);
    const largest = Math.max(...flat.map(Math.abs), 1e-12);
    this.data = { full: largest, signed: false, keyed: [null, null], ...data };
    this.cell = null;
    this.ring.hidden = true;
    this.told.textContent = data.hint ?? "Point at a cell, or use the arrow keys.";
    this.canvas.setAttribute("aria-label", data.sentence);
    this.box.setAttribute("aria-label", `${data.title}: arrow keys move from cell to cell`);
    this.showKey(flat);
    this.draw();
    this.numbers.open = false;
  }

  showKey(flat) {
    const { full, signed, binary } = this.data;
    const forbidden = this.data.values.flat().includes(null);
    const parts = [];
    if (!binary) {
      const over = Math.max(...flat.map(Math.abs)) > full ? "≥ " : "";
      const stops = signed ? [-1, 0, 1] : [0, 0.35, 1];
      const ground = stops.map((stop) => `${shade(stop, signed)} ${signed ? 50 * (stop + 1) : 100 * stop}%`).join(", ");
      parts.push(make("span", { class: "ramp-key" },
        make("span", { class: "ramp-numbers" }, make("span", {}, signed ? minus(`-${short(full)}`) : "0"), make("span", {}, `${over}${short(full)}`)),
        make("i", { class: "ramp", style: `background: linear-gradient(to right, ${ground})` })));
    } else parts.push(make("span", {}, make("i", { class: "cell-swatch", style: `background: ${shade(1)}` }), binary));
    if (forbidden) parts.push(make("span", {}, make("i", { class: "cell-swatch forbidden-swatch" }), this.data.forbidden ?? "not allowed"));
    this.key.replaceChildren(...parts);
  }

  layout() {
    const { rows, columns } = this.data;
    const named = Math.max(rows.length, columns.length) <= this.most;
    const longest = (names) => Math.min(12, Math.max(1, ...names.map((name) => String(name).length)));
    const left = named ? 16 + 7.4 * longest(rows) : 4;
    const top = named ? 16 + 7.4 * longest(columns) : 4;
    const room = this.box.clientWidth - left - 2;
    const side = Math.max(3, Math.min(this.data.side ?? 30, Math.floor(room / columns.length)));
    return { named, left, top, side };
  }

  draw() {
    if (!this.data || !this.box.clientWidth) return;
    const { rows, columns, values, signed, full } = this.data;
    const { named, left, top, side } = this.layout();
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [left + side * columns.length + 1, top + side * rows.length + 1];
    if (Math.abs(this.canvas.width - wide * scale) > 0.5) this.canvas.width = wide * scale;
    this.canvas.height = high * scale;
    Object.assign(this.canvas.style, { width: `${wide}px`, height: `${high}px` });
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, wide, high);
    const gap = side >= 6 ? 1 : 0;
    const ink = paint(signed);
    const rule = `rgb(${cssColour("--rule-strong").join(",")})`;
    values.forEach((row, r) => row.forEach((value, c) => {
      const [x, y] = [left + c * side, top + r * side];
      if (value === null) {
        if (side < 6) return;
        context.strokeStyle = rule;
        context.beginPath();
        context.moveTo(x, y + side - gap);
        context.lineTo(x + side - gap, y);
        context.stroke();
        return;
      }
      context.fillStyle = ink(value / full);
      context.fillRect(x, y, side - gap, side - gap);
    }));
    this.mark();
    if (!named) return;
    context.fillStyle = `rgb(${cssColour("--muted").join(",")})`;
    context.font = "12px system-ui, sans-serif";
    const every = Math.ceil(13 / side);
    const cut = (name) => (String(name).length > 12 ? `${String(name).slice(0, 11)}…` : String(name));
    rows.forEach((name, r) => {
      if (r % every) return;
      context.textAlign = "right";
      context.fillText(cut(name), left - 6, top + (r + 0.5) * side + 4);
    });
    columns.forEach((name, c) => {
      if (c % every) return;
      context.save();
      context.translate(left + (c + 0.5) * side + 4, top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(cut(name), 0, 0);
      context.restore();
    });
  }

  point(event) {
    if (!this.data) return;
    const { left, top, side } = this.layout();
    const [r, c] = [Math.floor((event.offsetY - top) / side), Math.floor((event.offsetX - left) / side)];
    if (r >= 0 && c >= 0 && r < this.data.rows.length && c < this.data.columns.length) { this.cell = [r, c]; this.mark(); }
  }

  press(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!this.data || !(event.key in moves)) return;
    event.preventDefault();
    const [r, c] = this.cell ?? [0, 0];
    const move = this.cell ? moves[event.key] : [0, 0];
    const within = (n, count) => Math.max(0, Math.min(count - 1, n));
    this.cell = [within(r + move[0], this.data.rows.length), within(c + move[1], this.data.columns.length)];
    this.mark();
  }

  mark() {
    this.ring.hidden = !this.cell;
    if (!this.cell) return;
    const { left, top, side } = this.layout();
    const [r, c] = this.cell;
    Object.assign(this.ring.style, { left: `${left + c * side - 1}px`, top: `${top + r * side - 1}px`, width: `${side + 1}px`, height: `${side + 1}px` });
    this.told.textContent = this.data.said(r, c, this.data.values[r][c]);
  }

  list() {
    if (!this.numbers.open || !this.data) return;
    const { rows, columns, values, binary } = this.data;
    const written = (value) => (value === null ? "–" : binary ? "yes" : short(value));
    const grid = make("table", {}, make("caption", { class: "hidden" }, this.data.title),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }), columns.map((name) => make("th", { scope: "col", class: "number" }, String(name))))),
      make("tbody", {}, rows.map((name, r) => make("tr", {}, make("th", { scope: "row" }, String(name)), values[r].map((value) => make("td", { class: "number" }, written(value)))))));
    this.numbers.replaceChildren(this.numbers.firstChild, make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${this.data.title}: numbers` }, grid));
  }
}

// ---------------------------------------------------------------- a model is opened when the page is
// Shows what a run is and can be asked; sections that it cannot answer stay hidden.
export const openModel = async (place) => {
  const about = byId("about");
  try {
    const facts = await stream(place.replace("{}", "facts"), {}, () => {});
    about.textContent = `${facts.checkpoint[0].toUpperCase()}${facts.checkpoint.slice(1)}. ${facts.parameters.toLocaleString("en")} parameters, reads ${facts.longest.toLocaleString("en")} tokens, task ${facts.task}.`;
    if (facts.unsound.length) {
      const notice = byId("unsound");
      notice.textContent = `✗ This run is invalid: it failed ${facts.unsound.join(", ")}. What it says here does not mean what it seems to.`;
      notice.hidden = false;
    }
    return facts;
  } catch (error) {
    about.replaceChildren(make("span", { class: "tone-wrong" }, error.message));
    announce(error.message);
    return null;
  }
};

// Of several sections those that can be asked, one at a time, chosen by pills; the address says which.
export const sections = (names, chosen = () => {}) => {
  const kinds = byId("kinds");
  const show = (name) => {
    names.forEach((other) => { byId(other).hidden = other !== name; });
    chosen(name);
  };
  const [asked] = address.read();
  const first = names.includes(asked) ? asked : names[0];
  kinds.hidden = names.length < 2;
  kinds.querySelectorAll("input").forEach((input) => {
    input.closest("label").hidden = !names.includes(input.value);
    input.checked = input.value === first;
    input.addEventListener("change", () => { address.write(input.value, []); show(input.value); });
  });
  show(first);
};
