"use strict";
// A map of numbers: rows and columns in shades, read by pointer and arrow keys.
import { make, minus, shade, short } from "/static/asking.js";

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
