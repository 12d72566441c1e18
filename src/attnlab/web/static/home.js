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
let order = [...body.rows].map((row) => row.dataset.live);

const cell = (row, name) => (name === "name" ? row.querySelector("th") : row.querySelector(`.${name}`));
const value = (row, name) => cell(row, name)?.dataset.value ?? "";
const shows = {
  all: () => true,
  running: (state) => ["running", "preparing"].includes(state),
  finished: (state) => ["finished", "converted"].includes(state),
  invalid: (state) => state === "invalid",
  failed: (state) => ["failed", "damaged", "interrupted"].includes(state),
};

const filter = () => {
  const chosen = tools.querySelector("input[name=show]:checked").value;
  const text = wanted.value.trim().toLowerCase();
  const every = studied.checked || text !== ""; // who searches means all of them
  let count = 0;
  for (const row of body.rows) {
    const own = every || !cell(row, "name").dataset.study;
    const fits = own && shows[chosen](value(row, "col-state")) && value(row, "name").toLowerCase().includes(text);
    row.hidden = !fits;
    count += fits;
  }
  return count;
};

const sort = () => {
  const by = sorted.value;
  const rows = [...body.rows];
  const rank = new Map(order.map((name, place) => [name, place]));
  const numeric = ["col-score", "col-time"].includes(by);
  const key = (row) => (numeric ? (value(row, by) === "" ? Infinity : Number(value(row, by))) : value(row, by));
  const before = document.activeElement;
  rows.sort((one, other) => {
    if (by === "col-when") return (rank.get(one.dataset.live) ?? 0) - (rank.get(other.dataset.live) ?? 0);
    const [a, b] = [key(one), key(other)];
    return numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
  });
  if (rows.some((row, place) => body.rows[place] !== row)) body.append(...rows);
  before?.focus?.({ preventScroll: true });
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
