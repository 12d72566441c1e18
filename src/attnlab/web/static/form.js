"use strict";
// The form of a new run: what differs from the ready config is checked as one types, by the command line's own rules.
import * as address from "/static/address.js";
import { send } from "/static/live.js";

const read = (id) => JSON.parse(document.getElementById(id).textContent);
const [configs, cards] = [read("configs"), read("cards")];
const form = document.getElementById("new-run");
const config = document.getElementById("config");
const together = document.getElementById("together");
const fields = [...form.querySelectorAll("[data-key]")];
let base = {};
let waiting = 0;
let measuring = 0;
let asked = 0;

const parts = (text) => {
  const found = /^([\w-]+)(?:\((.*)\))?$/.exec(text);
  return found ? [found[1], found[2] ?? ""] : [text, ""];
};
const inputs = (field) => [field.querySelector("select"), field.querySelector("input")];
const value = (field) => {
  const [select, input] = inputs(field);
  if (!select) return input.value.trim();
  return input.value.trim() ? `${select.value}(${input.value.trim()})` : select.value;
};
const show = (field, text) => {
  const [select, input] = inputs(field);
  if (!select) { input.value = text; return; }
  const [kind, options] = parts(text);
  if (![...select.options].some((option) => option.value === kind)) select.append(new Option(kind));
  select.value = kind;
  input.value = options;
  card(field);
};
const card = (field) => {
  const [select] = inputs(field);
  if (!select) return;
  const place = field.querySelector("[data-card]");
  const table = select.dataset.table;
  const told = cards[table]?.[select.value];
  if (!told) return place.replaceChildren();
  const link = document.createElement("a");
  link.href = `/parts/${table}/${select.value}`;
  link.textContent = "card";
  return place.replaceChildren(`${told} `, link, ".");
};

const fill = () => {
  base = configs[config.value];
  fields.forEach((field) => show(field, base[field.dataset.key] ?? ""));
  check();
};
// The config and what was changed of it, as the address has them.
const restore = () => {
  const [, values] = address.read();
  if (values.get("config") in configs) config.value = values.get("config");
  fill();
  for (const text of values.getAll("set")) {
    const [, key, value] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    const field = fields.find((one) => one.dataset.key === key);
    if (!field) continue;
    show(field, value);
    field.closest("details").open = true;
  }
  if (values.has("name")) document.getElementById("name").value = values.get("name");
  check();
};
const changes = () =>
  fields
    .filter((field) => value(field) !== (base[field.dataset.key] ?? "") && value(field) !== "")
    .map((field) => `${field.dataset.key}=${value(field)}`);

const wrong = (place, text) => {
  place.textContent = text;
  place.hidden = !text;
};
const wrongField = (field, text) => {
  wrong(field.querySelector(".wrong-said"), text);
  if (text) field.closest("details").open = true;
  inputs(field).filter(Boolean).forEach((input) => mark(input, text));
};
const mark = (input, text) => {
  input.classList.toggle("wrong", Boolean(text));
  text ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid");
};
const wrongName = (text) => {
  wrong(document.getElementById("name-said"), text);
  mark(document.getElementById("name"), text);
};
const allow = (begin, copy = begin) => {
  document.getElementById("begin").disabled = !begin;
  document.getElementById("copy").disabled = !copy;
};
const check = async () => {
  const mine = ++asked;
  clearTimeout(measuring);
  const set = changes();
  const name = document.getElementById("name").value;
  const usual = config.querySelector("option[selected]")?.value ?? config.options[0].value;
  address.write("", [...(config.value === usual ? [] : [["config", config.value]]), ...set.map((one) => ["set", one]), ...(name ? [["name", name]] : [])]);
  let answer;
  try {
    answer = await send("/api/config", { config: config.value, set, name });
  } catch (error) {
    answer = { errors: [{ message: error.message, setting: null }], name: "", html: "" };
  }
  if (mine !== asked) return; // something was typed since
  fields.forEach((field) => {
    wrongField(field, answer.errors.find((one) => one.setting === field.dataset.key)?.message ?? "");
  });
  const known = new Set(fields.map((field) => field.dataset.key));
  const others = answer.errors.filter((one) => !known.has(one.setting));
  wrong(together, [...others.map((one) => one.message), answer.outside ?? ""].join(" ").trim());
  wrongName(answer.name);
  const sound = !answer.name && !answer.errors.length;
  allow(sound && !answer.outside, sound);
  if (answer.errors.length) {
    document.getElementById("facts").replaceChildren();
    return;
  }
  document.getElementById("facts").innerHTML = answer.html; // rendered by the server
  document.getElementById("command").textContent = answer.command;
  if (answer.measure) measuring = setTimeout(() => measure(mine, set), 1500);
};
// Where no run here tells how long it takes, a few real steps do, once nothing is typed any more.
const measure = async (mine, set) => {
  try {
    const { html } = await send("/api/pace", { config: config.value, set });
    if (mine === asked) document.getElementById("facts").innerHTML = html; // rendered by the server
  } catch {
    // what is wrong is said where it is typed
  }
};

form.addEventListener("input", (event) => {
  if (event.target === config) return fill();
  const field = event.target.closest("[data-key]");
  if (!field && event.target.id !== "name") return undefined;
  if (event.target.matches("select")) {
    const [kind, options] = parts(base[field.dataset.key] ?? "");
    inputs(field)[1].value = kind === event.target.value ? options : "";
    card(field);
  }
  // what was said of the former value is not said of this one
  field ? wrongField(field, "") : wrongName("");
  wrong(together, "");
  allow(false);
  asked += 1;
  clearTimeout(waiting);
  waiting = setTimeout(check, 300);
  return undefined;
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = document.getElementById("begin-said");
  const button = document.getElementById("begin");
  button.disabled = true;
  said.textContent = "Starting …";
  said.className = "";
  try {
    const { there } = await send("/api/train", { config: config.value, set: changes(), name: document.getElementById("name").value });
    location.assign(there);
  } catch (error) {
    said.textContent = error.message;
    said.className = "tone-wrong";
    button.disabled = false;
  }
});
document.getElementById("copy").addEventListener("click", () => {
  const [command, said] = [document.getElementById("command"), document.getElementById("begin-said")];
  const tell = (text) => { said.textContent = text; said.className = ""; };
  // a browser lets pages of other hosts copy nothing
  if (navigator.clipboard) navigator.clipboard.writeText(command.textContent).then(() => tell("Copied."), () => tell("It cannot be copied here."));
  else { getSelection().selectAllChildren(command); tell("Selected: copy it with Ctrl-C."); }
});
restore();
