"use strict";
// The list of runs: filtered, sorted and searched here; rows come and go with the folder.
import * as address from "/static/address.js";
import { announce, onRegions } from "/static/live.js";

const body = document.querySelector("#runs tbody");
const tools = document.getElementById("tools");
const wanted = document.getElementById("wanted");
const sorted = document.getElementById("sorted");
const studied = document.getElementById("studied");
const compare = document.getElementById("compare");
const heads = document.querySelectorAll("#runs thead [data-by]");
const ranked = document.getElementById("ranked");
const nothingFits = document.getElementById("nothing-fits");
let order = [...body.rows].map((row) => row.dataset.live);

const cell = (row, name) => (name === "name" ? row.querySelector("th") : row.querySelector(`.${name}`));
const value = (row, name) => cell(row, name)?.dataset.value ?? "";
const shows = {
  all: () => true,
  running: (state) => ["running", "preparing"].includes(state),
  finished: (state) => ["finished", "converted"].includes(state),
  interrupted: (state) => state === "interrupted",
  invalid: (state) => state === "invalid",
  failed: (state) => ["failed", "damaged"].includes(state),
};

const filter = () => {
  const chosen = tools.querySelector("input[name=show]:checked").value;
  const text = wanted.value.trim().toLowerCase();
  const every = studied.checked || text !== ""; // who searches means all of them
  let [count, folded] = [0, 0]; // those that are in studies alone
  for (const row of body.rows) {
    const fits = shows[chosen](value(row, "col-state")) && value(row, "name").toLowerCase().includes(text);
    const own = every || !cell(row, "name").dataset.study;
    row.hidden = !(fits && own);
    count += fits && own;
    folded += fits && !own;
  }
  nothingFits.textContent = nothingFound(chosen, wanted.value.trim(), folded);
  nothingFits.hidden = count > 0 || !body.rows.length;
  return count;
};

const nothingFound = (chosen, text, folded) => {
  const run = `no ${chosen === "all" ? "" : `${chosen} `}run${text && ` with “${text}” in its name`}`;
  return folded ? `Nothing found: ${run} outside of studies. There are ${folded.toLocaleString("en")} in studies.` : `Nothing found: ${run}.`;
};

// ---------------------------------------------------------------- sorted
const text = (one, other) => one.localeCompare(other, "en", { numeric: true });
const number = (one, other) => (one === "" || other === "" ? (one === "") - (other === "") : Number(one) - Number(other));
// Scores of one measure together, each by its own better side; an invalid run is better than none.
const byScore = (one, other) => {
  const [mine, theirs] = [cell(one, "col-score").dataset, cell(other, "col-score").dataset];
  const invalid = (row) => value(row, "col-state") === "invalid";
  const side = mine.better === "higher" ? -1 : 1;
  const [a, b] = [mine.value ?? "", theirs.value ?? ""];
  return text(mine.measure, theirs.measure) || invalid(one) - invalid(other) || (a === "" || b === "" ? number(a, b) : side * number(a, b));
};
const SORTS = {
  "col-when": ["descending", () => 0], // as the server has them
  name: ["ascending", (one, other) => text(value(one, "name"), value(other, "name"))],
  "col-score": ["other", byScore],
  "col-time": ["ascending", (one, other) => number(value(one, "col-time"), value(other, "col-time"))],
  "col-state": ["ascending", (one, other) => text(value(one, "col-state"), value(other, "col-state"))],
};

const sort = () => {
  const [direction, compared] = SORTS[sorted.value];
  const rank = new Map(order.map((name, place) => [name, place]));
  const rows = [...body.rows].sort((one, other) => compared(one, other) || (rank.get(one.dataset.live) ?? 0) - (rank.get(other.dataset.live) ?? 0));
  const before = document.activeElement;
  if (rows.some((row, place) => body.rows[place] !== row)) body.append(...rows);
  before?.focus?.({ preventScroll: true });
  heads.forEach((head) => {
    if (head.dataset.by === sorted.value) head.parentElement.setAttribute("aria-sort", direction);
    else head.parentElement.removeAttribute("aria-sort");
  });
  ranked.textContent = sorted.value === "col-score" ? measuresSentence(rows) : "";
};

// Which measures are ranked, and by which side.
const measuresSentence = (rows) => {
  const shown = rows.filter((row) => !row.hidden).map((row) => cell(row, "col-score").dataset);
  const sides = new Map(shown.map(({ measure, better }) => [measure, better === "higher" ? "highest" : "lowest"]));
  return sides.size ? `Sorted by measure: ${[...sides].map(([measure, side]) => `${measure}, ${side} first`).join("; ")}. Invalid runs come last.` : "";
};

const pick = () => {
  const count = body.querySelectorAll("input[name=run]:checked").length;
  compare.disabled = count < 2 || count > 20;
  compare.textContent = count ? `Compare ${count} runs` : "Compare";
};

tools.addEventListener("submit", (event) => {
  event.preventDefault();
  const chosen = [...body.querySelectorAll("input[name=run]:checked")].map((box) => `run=${encodeURIComponent(box.value)}`);
  if (chosen.length > 1) location.assign(`/compare?${chosen.join("&")}`);
});
const keep = () => address.write("", address.changed(tools));
tools.addEventListener("change", () => { announce(`${filter()} runs`); sort(); keep(); });
wanted.addEventListener("input", () => { filter(); keep(); });
heads.forEach((head) => head.addEventListener("click", () => {
  sorted.value = head.dataset.by;
  sorted.dispatchEvent(new Event("change", { bubbles: true }));
}));
body.addEventListener("change", pick);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.matches("input, textarea, select")) {
    event.preventDefault();
    wanted.focus();
  }
});

const states = new Map([...body.rows].map((row) => [row.dataset.live, value(row, "col-state")]));
onRegions((changed, known) => {
  if ("order" in changed) {
    order = JSON.parse(changed.order);
    for (const name of order.filter((name) => !known.has(name))) {
      const row = document.createElement("tr");
      row.dataset.live = name;
      row.innerHTML = changed[name] ?? "";
      body.prepend(row);
    }
    const there = new Set(order);
    [...body.rows].filter((row) => !there.has(row.dataset.live)).forEach((row) => row.remove());
    tools.hidden = !order.length;
    body.parentElement.hidden = !order.length;
  }
  for (const row of body.rows) {
    const [name, now] = [row.dataset.live, value(row, "col-state")];
    if (states.has(name) && states.get(name) !== now) announce(`${value(row, "name")}: ${now}`);
    states.set(name, now);
  }
  filter();
  sort();
});
address.fill(tools, address.read()[1]);
filter();
sort();
pick();
