"use strict";
// The heads of a model on a text, its output without some of them, and two texts patched into one another.
import * as address from "/static/address.js";
import { announce, stream } from "/static/live.js";
import { drawAttention } from "/static/attention.js";
import { TokenRow, byId, chances, make, openModel, percent, sections, shade, shaded, short, visible } from "/static/asking.js";
import { HeatMap } from "/static/heat_map.js";
import { PictureField, PictureHeads, besideIt, withPicture } from "/static/pictures.js";
import { question, remember, settled } from "/static/question.js";
import { bothPredictions } from "/static/removed_heads.js";

const place = byId("asked").dataset.ask;
const form = (name) => byId(name).querySelector("form");
const unpacked = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

// ---------------------------------------------------------------- heads
const looking = (facts) => {
  const host = byId("frame-host");
  const [remove, restore, removed] = [byId("remove"), byId("restore"), byId("removed")];
  const panel = byId("without-more");
  let drawn = null; // what is shown: its maps, the text that was read, the head that is large
  let gone = new Set();
  let wanted = address.read()[1]; // what the page was opened with
  let asking = null;
  const keep = () => remember(form("heads"), { head: drawn.chosen.join() === drawn.usual ? "" : drawn.chosen.join(), without: [...gone].join(" ") });
  const known = (key) => /^\d+,\d+$/.test(key) && Number(key.split(",")[1]) < (drawn.maps.layers[key.split(",")[0]]?.heads ?? 0);
  byId("heads").querySelector(".pair").hidden = !(facts.pairs || facts.reads_source);
  byId("read-text").defaultValue = facts.examples.text;
  byId("read-pair").defaultValue = facts.examples.pair;
  if (facts.can.answer) nameFields({ "read-text": "Question", "read-pair": "Passage" });
  if (facts.reads_source) nameFields({ "read-pair": "What it has written (empty: what it writes itself)" });
  const row = new TokenRow(byId("without-tokens"), (n) => panel.replaceChildren(...beforeAndAfter(tokens[n])));
  let tokens = [];
  const field = new PictureField(form("heads"), facts, place, (seen) => facts.pictures.text === "needed" && besideIt(byId("read-text"), seen.text));
  if (facts.pictures) askAboutPicture(facts.pictures.text);

  const name = (key) => {
    const [layer, head] = key.split(",").map(Number);
    return `${drawn.maps.layers[layer].name}, head ${head}`;
  };

  const showRemoved = () => {
    const key = drawn.chosen.join(",");
    drawn.looks?.mark(key, gone);
    remove.hidden = !facts.can.without_heads;
    remove.setAttribute("aria-pressed", String(gone.has(key)));
    remove.textContent = gone.has(key) ? `Bring back ${name(key)}` : `Remove ${name(key)}`;
    restore.hidden = gone.size < 2;
    removed.replaceChildren(...[...gone].map((one) =>
      make("button", { type: "button", class: "pill-button", "aria-label": `Bring back ${name(one)}`, onclick: () => toggle(one) }, `${name(one)} ×`)));
    host.querySelectorAll(".small-row [data-head]").forEach((button) => {
      const without = gone.has(button.dataset.head);
      button.classList.toggle("gone", without);
      button.setAttribute("aria-label", `${button.title}${without ? ", removed" : ""}. Delete removes it or brings it back.`);
    });
  };

  const toggle = (key) => {
    const focused = document.activeElement;
    gone.has(key) ? gone.delete(key) : gone.add(key);
    keep();
    showRemoved();
    if (!focused.isConnected) remove.focus();
    compare();
  };

  const compare = settled(async () => {
    asking?.abort();
    const own = (asking = new AbortController());
    byId("removing-said").textContent = "";
    if (!gone.size) { byId("without").hidden = true; return; }
    const heads = [...gone].map((key) => key.split(",").map(Number));
    try {
      const done = await stream(place.replace("{}", "without_heads"), { ...drawn.given, text: drawn.text, pair: drawn.pair, heads }, () => {}, own.signal);
      "moved" in done ? showMoved(done) : done.tokens ? showWords(done) : showPredicted(done);
      byId("without").hidden = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      byId("removing-said").textContent = error.message;
      byId("without").hidden = true; // it was of other heads
    }
  }, 100);

  const without = (done) => `Without ${done.heads.length === 1 ? done.heads[0] : `${done.heads.length} heads`}`;

  const showMoved = (done) => {
    byId("without-title").textContent = `${without(done)}: ${short(done.moved)}`;
    row.clear();
    panel.replaceChildren();
    byId("without-labels").replaceChildren();
    byId("without-key").replaceChildren();
    byId("without-note").textContent = `${done.measure[0].toUpperCase()}${done.measure.slice(1)}.`;
    announce(byId("without-title").textContent);
  };

  const showWords = (done) => {
    const chosen = row.chosen;
    tokens = done.tokens;
    const largest = Math.max(...tokens.map((token) => token.divergence), 1e-9);
    byId("without-title").textContent = `${without(done)}: ${short(done.mean)} nats`;
    row.clear();
    tokens.forEach((token) => {
      const share = token.divergence / largest;
      const moved = token.before[0].piece !== token.after[0].piece;
      row.add(visible(token.text), { look: `spaced ${moved ? "second" : ""}`, style: shaded(share), label: `${visible(token.text)}: ${short(token.divergence)} nats${moved ? ", the most likely word changes" : ""}` });
    });
    const ground = [0, 0.35, 1].map((stop) => `${shade(stop)} ${100 * stop}%`).join(", ");
    byId("without-key").replaceChildren(make("p", { class: "grid-key" }, make("span", { class: "ramp-key" }, make("span", { class: "ramp-numbers" }, make("span", {}, "0"), make("span", {}, `${short(largest)} nats`)), make("i", { class: "ramp", style: `background: linear-gradient(to right, ${ground})` }))));
    byId("without-note").textContent = `${done.measure[0].toUpperCase()}${done.measure.slice(1)}; here place by place. Underlined: the most likely word there is another one.`;
    const most = tokens.reduce((best, token, n) => (token.divergence > tokens[best].divergence ? n : best), 0);
    row.choose(chosen >= 0 && chosen < tokens.length ? chosen : most, false);
    announce(`${byId("without-title").textContent}. It changes most at ${tokens[most].text}.`);
  };

  const beforeAndAfter = (token) => [
    make("p", { class: "panel-title" }, "What it says at ", make("bdi", { class: "piece" }, visible(token.text)), `: ${short(token.divergence)} nats`),
    make("div", { class: "two-tables" }, chances("With all heads", token.before), chances("Without", token.after)),
  ];

  const showPredicted = (done) => {
    const [shown, sentence] = bothPredictions(done);
    byId("without-title").textContent = without(done);
    row.clear();
    byId("without-key").replaceChildren();
    byId("without-note").textContent = "";
    panel.replaceChildren();
    byId("without-labels").replaceChildren(shown);
    announce(sentence);
  };

  let frames = null;
  question(form("heads"), place, async ({ pair, ...values }, ask) => {
    const given = facts.pictures ? await withPicture(values, field) : facts.pairs || facts.reads_source ? { ...values, pair } : values;
    const done = await ask("attention", given);
    if (done.picture) done.maps.chosen = done.picture.worded;
    frames?.abort();
    frames = new AbortController();
    gone = new Set();
    byId("without").hidden = true;
    drawn = { maps: done.maps, given, text: done.text, pair: done.pair, chosen: done.maps.chosen, usual: done.maps.chosen.join() };
    if (known(wanted.get("head") ?? "")) drawn.chosen = done.maps.chosen = wanted.get("head").split(",").map(Number);
    if (facts.can.without_heads) gone = new Set((wanted.get("without") ?? "").split(" ").filter(known));
    wanted = new URLSearchParams();
    byId("heads-shown").hidden = false;
    byId("heads-headline").textContent = done.headline;
    byId("heads-remark").textContent = done.remark;
    byId("heads-notes").textContent = done.notes;
    host.replaceChildren(byId("maps-frame").content.cloneNode(true));
    drawAttention(done.maps, unpacked(done.weights), { signal: frames.signal, onChoose: (layer, head) => { drawn.chosen = [layer, head]; keep(); showRemoved(); drawn.looks?.words(); } });
    byId("on-picture").hidden = !done.picture;
    if (done.picture) {
      const choose = (key) => host.querySelector(`.small-row [data-head="${key}"]`).click();
      drawn.looks = new PictureHeads(byId("on-picture"), done.picture, { choose, remove: toggle, signal: frames.signal });
      drawn.looks.mark(drawn.chosen.join(), gone);
      await drawn.looks.draw();
    }
    keep();
    showRemoved();
    if (gone.size) compare();
    host.addEventListener("keydown", (event) => {
      const button = event.target.closest?.("[data-head]");
      if (facts.can.without_heads && button && ["Delete", "Backspace"].includes(event.key)) { event.preventDefault(); toggle(button.dataset.head); }
    }, { signal: frames.signal });
    announce(done.headline);
  });
  remove.addEventListener("click", () => toggle(drawn.chosen.join(",")));
  restore.addEventListener("click", () => { gone = new Set(); keep(); showRemoved(); remove.focus(); compare(); });
};

const nameFields = (names) => {
  for (const [id, name] of Object.entries(names)) byId("heads").querySelector(`label[for="${id}"]`).textContent = name;
};

// What a text is for, where a model reads pictures.
const BESIDE = {
  needed: "Text that is read with it",
  written: "What it has written (empty: what it writes itself)",
  instead: "or a text instead of the picture",
};
const askAboutPicture = (text) => {
  const area = byId("read-text");
  area.value = area.defaultValue = "";
  area.closest(".field").hidden = text === "none";
  nameFields({ "read-text": BESIDE[text] ?? "" });
  byId("heads").querySelector(".pair").hidden = true;
};
// ---------------------------------------------------------------- two texts
const patching = (facts) => {
  let [streams, heads] = [null, null];
  const own = form("patching");
  own.querySelector(".target").hidden = !facts.reads_source;
  if (facts.reads_source) byId("patch-at").textContent = "look at what it writes after token (empty: where the two texts differ most)";
  own.elements.first.defaultValue = facts.examples.first;
  own.elements.second.defaultValue = facts.examples.second;
  question(own, place, async ({ target, ...texts }, ask) => {
    const done = await ask("patch_texts", facts.reads_source ? { ...texts, target } : texts);
    byId("patched").hidden = false;
    const columns = done.first.map((word, n) => (word === done.second[n] ? `${n} ${word}` : `${n} ${word}/${done.second[n]}`));
    // The stream after the last layer is the output itself (of a source, all that is read of it), and the words
    // that differ are all that enters.
    const largest = (grid) => grid.flatMap((row, r) => row.map((share, c) => [share, r, c])).reduce((best, one) => (one[0] > best[0] ? one : best));
    const told = (share) => percent(share).replace("-", "−");
    if (done.heads.length) {
      const [share, layer, head] = largest(done.heads);
      byId("patched-headline").textContent = `Of single heads, layer ${layer}, head ${head} brings the output nearest to that of the first text: ${told(share)} of the way.`;
    } else byId("patched-headline").textContent = `After ${done.layers[1]}, one place alone brings at most ${told(largest([done.hidden[1]])[0])} of the way.`;
    streams ??= new HeatMap(byId("hidden-map"));
    streams.show({ title: "The stream, place by place", rows: done.layers, columns, values: done.hidden, signed: true, full: 1,
      sentence: `Share of the way for the embedding, ${done.layers.length - 1} layers and ${columns.length} places. ${byId("patched-headline").textContent}`,
      said: (row, column, value) => `${done.layers[row]} at ${columns[column]}: ${told(value)} of the way` });
    byId("patched-heads").hidden = !done.heads.length;
    if (done.heads.length) {
      const rows = done.heads.map((_, n) => `layer ${n}`);
      heads ??= new HeatMap(byId("head-map"));
      heads.show({ title: "Heads, at all places", rows, columns: done.heads[0].map((_, n) => `head ${n}`), values: done.heads, signed: true, full: 1,
        sentence: "Share of the way by one head at all places.",
        said: (row, column, value) => `${rows[row]}, head ${column}: ${told(value)} of the way` });
    }
    byId("patched-note").textContent = `Shown: ${done.measure}. The two outputs are ${short(done.apart)}${done.unit && ` ${done.unit}`} apart. Below 0 the output goes further away.`;
    announce(byId("patched-headline").textContent);
  });
};

const facts = await openModel(place);
if (facts) {
  const names = [...(facts.can.attention ? ["heads"] : []), ...(facts.can.patch_texts ? ["patching"] : [])];
  if (facts.can.attention) looking(facts);
  if (facts.can.patch_texts) patching(facts);
  if (names.length) sections(names);
  else {
    byId("nothing").textContent = "There is nothing here to look into: this model has no attention that reads a text. attnlab explain has pictures of what it does.";
    byId("nothing").hidden = false;
  }
}
document.body.dataset.ready = "";
