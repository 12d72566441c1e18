"use strict";
// Forms that are answered in place: what is asked, what is wrong with it, and what is shown of the last question alone.
import * as address from "/static/address.js";
import { stream } from "/static/live.js";

// Asks for what a form holds; `work(values, ask)` shows the answer. One question at a time: the next one ends the last.
// What was asked is in the address, and asked again when that is opened; `more()` gives what is not in the form.
// What the section shows is the answer to what was asked last, or is not shown: "asked" keeps its room until the answer
// comes (of a form that follows what is typed, the last answer itself), "none" says that there is none.
export const question = (form, place, work, more = () => ({})) => {
  let running = null;
  const section = form.closest("section");
  const follows = !form.querySelector(".primary");
  const said = form.querySelector("[data-said]");
  const answer = (state) => { section.dataset.answer = state; };
  const stop = form.querySelector("[data-stop]");
  const tell = (text, wrong = false) => {
    said.textContent = text;
    said.classList.toggle("tone-wrong", wrong);
  };
  const run = async () => {
    running?.abort();
    running = null;
    remember(form, more());
    const fault = faultOf(form);
    if (fault) {
      form.removeAttribute("aria-busy");
      answer("none");
      return tell(fault, true);
    }
    const own = (running = new AbortController());
    form.setAttribute("aria-busy", "true");
    if (stop) stop.hidden = false;
    tell("–");
    if (!follows) answer("asked");
    const ask = async (action, values, part = () => {}) => {
      const told = await stream(place.replace("{}", action), values, (one) => { answer("there"); part(one); }, own.signal);
      answer("there"); // before it is drawn, at the width that it has
      return told;
    };
    try {
      const told = await work(valuesOf(form), ask, own.signal);
      if (running === own) tell(told ?? "");
    } catch (error) {
      if (running !== own) return;
      const stopped = error.name === "AbortError";
      tell(stopped ? "Stopped." : error.message, !stopped);
      if (!stopped || section.dataset.answer === "asked") answer("none");
    }
    if (running !== own) return;
    running = null;
    form.removeAttribute("aria-busy");
    if (stop) stop.hidden = true;
    return undefined;
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  });
  stop?.addEventListener("click", () => running?.abort());
  const [name, values] = address.read();
  if (name === section.id && values.size) queueMicrotask(() => { address.fill(form, values); run(); });
  return run;
};

// What is wrong with a number of the form, in the form's own words: it is not asked about.
const faultOf = (form) => {
  const field = [...form.elements].find((one) => one.type === "number" && !one.disabled && !one.validity.valid && !one.closest("[data-picture]"));
  if (!field) return "";
  const name = field.closest("label").querySelector(".fine").textContent;
  const { min, max, step, validity } = field;
  const range = min && max ? `from ${min} to ${max}` : min ? `at least ${min}` : `at most ${max}`;
  const whole = step === "1" ? "a whole number" : "a number";
  const given = validity.badInput ? "What is given" : field.value;
  return `${name}: ${given} does not fit; give ${whole}${min || max ? ` ${range}` : ""}.`;
};

// Puts what a form holds into the address, and what else belongs to the view.
export const remember = (form, more = {}) => {
  const values = [...address.changed(form), ...Object.entries(more).filter(([, value]) => value !== "")];
  const follows = !form.querySelector(".primary"); // it asks by itself, with whatever is in it
  address.write(form.closest("section").id, values.length || follows ? values : [["asked", "as it is"]]);
};

// The fields of a form by name: numbers as numbers, empty ones left out.
const valuesOf = (form) => {
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
