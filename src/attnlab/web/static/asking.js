"use strict";
// What pages share that ask a model: elements, numbers, bars, tokens.
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
export const countOf = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const visible = (piece) => (piece === "" ? "∅" : piece.trim() === "" ? piece.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣") : piece.replaceAll("\n", "⏎"));

// ---------------------------------------------------------------- what a model does not know
// Characters and words as a sentence lists them; blanks by their names.
const BLANKS = { " ": "a space", "\n": "a line break", "\t": "a tab", "\u00a0": "a no-break space" };
const quoted = (text) => BLANKS[text] ?? `“${visible(text)}”`;
const MOST_LISTED = 8;
const listed = (texts) => texts.slice(0, MOST_LISTED).map(quoted).join(", ") + (texts.length > MOST_LISTED ? ` and ${texts.length - MOST_LISTED} more` : "");
// What of a text a model cannot tell apart: its parts are one unknown word, or its characters were in no text that it read.
export const unknownNotes = ({ unknown, unseen }) => [
  ...(unknown.length ? [`The tokenizer does not know ${countOf(unknown.length, "part")} of the text, which ${unknown.length === 1 ? "is" : "are all"} the same unknown word to the model: ${listed(unknown)}.`] : []),
  ...(unseen.length ? [`The training text has none of ${unseen.length === 1 ? "this character" : `these ${unseen.length} characters`}: ${listed(unseen)}.`] : []),
].map((note) => make("p", { class: "notice notice-quick" }, note));

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
