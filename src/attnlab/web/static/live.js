"use strict";
// What every page does: shows what changed, tells what ended, filters lists, sends what a person asks for.

export const announce = (text) => { document.getElementById("announced").textContent = text; };

// ---------------------------------------------------------------- plots
const read = document.getElementById("plots");
export const plots = read ? JSON.parse(read.textContent) : {};
let loaded = null;
const plotly = () => {
  loaded ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.js";
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return loaded;
};
/* global plotting */
let drawing = null;
export const showPlots = (inside = document) => {
  inside.querySelectorAll("[data-plot]:not([data-known])").forEach((figure) => {
    figure.dataset.known = "";
    drawing ??= plotting(plots, plotly());
    drawing.add(figure);
  });
};

// ---------------------------------------------------------------- regions
const regions = () => new Map([...document.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e]));

// Values change in place: only what differs is touched, so that focus, selection and open details stay.
const morph = (old, wanted) => {
  if (old.isEqualNode(wanted)) return;
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) return old.replaceWith(wanted.cloneNode(true));
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = wanted.nodeValue;
    return;
  }
  const kept = new Set(old.tagName === "DETAILS" ? ["open"] : []);
  [...old.attributes].forEach((a) => !wanted.hasAttribute(a.name) && !kept.has(a.name) && old.removeAttribute(a.name));
  [...wanted.attributes].forEach((a) => old.getAttribute(a.name) !== a.value && !kept.has(a.name) && old.setAttribute(a.name, a.value));
  const [mine, theirs] = [[...old.childNodes], [...wanted.childNodes]];
  theirs.forEach((child, place) => (place < mine.length ? morph(mine[place], child) : old.append(child.cloneNode(true))));
  mine.slice(theirs.length).forEach((child) => child.remove());
};

const parsed = (element, html) => {
  const wanted = element.cloneNode(false);
  wanted.innerHTML = html;
  return wanted;
};

const hooks = [];
export const onRegions = (hook) => hooks.push(hook);

// Text that is being typed stays as it is; what changed meanwhile is shown as soon as the focus leaves it.
const TYPED = "textarea, input:not([type=checkbox], [type=radio], [type=range], [type=button], [type=submit], [type=file])";
const waiting = new Map();
const isTypedIn = (element) => element.contains(document.activeElement) && document.activeElement.matches(TYPED);
document.addEventListener("focusout", () => setTimeout(() => {
  if (!waiting.size) return;
  const changed = Object.fromEntries(waiting);
  waiting.clear();
  take(changed);
}));

// Redrawing keeps the focus: on the control that took the place of the one that had it, else on the headline.
const controlsIn = (element) => [...element.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter((control) => !control.disabled);
const keepFocus = (element, redraw) => {
  const focused = document.activeElement;
  const inside = element.contains(focused);
  const place = controlsIn(element).indexOf(focused);
  redraw();
  if (!inside || document.activeElement === focused) return;
  const left = controlsIn(element);
  (left[Math.min(place, left.length - 1)] ?? document.getElementById("headline")).focus({ preventScroll: true });
};

const redraw = (element, content) => {
  const wanted = parsed(element, content);
  if ("whole" in element.dataset) { // what a script drew into cannot be changed in place
    const called = (input) => input.name + input.parentElement.textContent;
    const chosen = [...element.querySelectorAll("input:checked")].map(called);
    element.replaceChildren(...wanted.childNodes);
    element.querySelectorAll("input[type=radio]").forEach((input) => { input.checked ||= chosen.includes(called(input)); });
  } else if (element.childNodes.length === 0) element.replaceChildren(...wanted.childNodes);
  else morph(element, wanted);
  showPlots(element);
};

const take = (changed) => {
  const known = regions();
  for (const [name, content] of Object.entries(changed)) {
    if (name.startsWith("plot:")) {
      if (!content) continue; // there is nothing to draw any more
      const anchor = name.slice(5);
      plots[anchor] = JSON.parse(content);
      const figure = document.querySelector(`[data-plot="${CSS.escape(anchor)}"]`);
      if (figure && drawing) drawing.redraw(figure);
      continue;
    }
    const element = known.get(name);
    if (!element) continue;
    if (isTypedIn(element)) { waiting.set(name, content); continue; }
    waiting.delete(name);
    keepFocus(element, () => redraw(element, content));
  }
  hooks.forEach((hook) => hook(changed, known));
  const told = changed["announced"];
  if (told) announce(new DOMParser().parseFromString(told, "text/html").body.textContent);
};

const connect = () => {
  const { events, mark } = document.body.dataset;
  if (!events) return;
  const shown = document.getElementById("connection");
  let last = Date.now();
  let [source, seen] = [null, mark];
  const heard = () => { last = Date.now(); shown.textContent = ""; shown.classList.remove("lost"); };
  const open = () => {
    source = new EventSource(`${events}?after=${encodeURIComponent(seen)}`);
    source.addEventListener("open", heard);
    source.addEventListener("regions", (event) => { heard(); seen = event.lastEventId || seen; take(JSON.parse(event.data)); });
    source.addEventListener("error", () => {
      const silent = Math.round((Date.now() - last) / 1000);
      shown.textContent = `last heard ${silent} s ago`;
      shown.classList.add("lost");
      if (source.readyState === EventSource.CLOSED) setTimeout(again, 1000);
    });
  };
  // A server that was started again knows of no page yet: asked for this one, it does.
  const again = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (answer && !answer.ok) location.reload(); // it says what became of it
    else if (answer) open();
    else setTimeout(again, 1000);
  };
  open();
  // A browser keeps few connections to one server: a tab that nobody sees leaves its own to the others.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) open();
  });
  window.addEventListener("pagehide", () => source.close());
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
};

// ---------------------------------------------------------------- what a person asks for
export const send = async (place, values = {}) => {
  const answer = await fetch(place, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
  const content = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(content.error ?? `The server answered ${answer.status}.`);
  return content;
};

// The sentence of an answer that is no answer: JSON of a view, or plain text of the guard.
const refusal = (text) => {
  try { return JSON.parse(text).error; } catch { return text || null; }
};

// Parts of an answer as they come: a JSON object a line.
export const stream = async (place, values, part, signal) => {
  const answer = await fetch(place, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values), signal });
  if (!answer.ok) throw new Error(refusal(await answer.text()) ?? `The server answered ${answer.status}.`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let [rest, last] = ["", null];
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const told = JSON.parse(line);
      if (told.error) throw new Error(told.error);
      if (told.done) last = told.done;
      else if (told.part) part(told.part);
    }
    if (done) return last;
  }
};

const sending = new Set(); // their buttons stay as they are: one that is disabled loses the focus
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!("send" in form.dataset)) return;
  event.preventDefault();
  const said = form.querySelector("[data-said]");
  if (sending.has(form)) return;
  sending.add(form);
  const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value]));
  try {
    const answer = await send(form.dataset.send, values);
    if (answer.there) return location.assign(answer.there);
    if (said) { said.textContent = answer.said ?? "Done."; said.className = ""; }
  } catch (error) {
    if (said) { said.textContent = error.message; said.className = "tone-wrong"; }
  }
  sending.delete(form);
});

const contents = document.querySelector(".contents details");
if (contents) {
  const wide = matchMedia("(min-width: 1120px)");
  const place = () => (contents.open = wide.matches);
  wide.addEventListener("change", place);
  place();
}
showPlots();
connect();
