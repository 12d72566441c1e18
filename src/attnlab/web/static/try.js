"use strict";
// A model is asked for what it was trained for.
import { announce } from "/static/live.js";
import { TokenRow, bar, byId, chances, countOf, fixed, make, openModel, percent, sections, shade, shaded, short, table, unknownNotes, visible } from "/static/asking.js";
import { HeatMap } from "/static/heat_map.js";
import { PictureField, besideIt, withPicture } from "/static/pictures.js";
import { question } from "/static/question.js";
import { captioning, searchingPictures } from "/static/try_pictures.js";

const place = byId("asked").dataset.ask;
const form = (name) => byId(name).querySelector("form");

// ---------------------------------------------------------------- write
const writing = () => {
  const own = form("write");
  const more = byId("written-more");
  let shown = []; // of each piece of text its tokens: several where one ends within a character
  const row = new TokenRow(byId("written"), (n) => more.replaceChildren(...shown[n].map((part) => alternatives(part))));
  const follow = () => own.querySelectorAll(".sampled input").forEach((input) => { input.disabled = own.elements.rule.value === "greedy"; });
  own.addEventListener("change", follow);
  follow();
  question(own, place, async ({ window: forget, ...values }, ask) => {
    shown = [];
    let [count, half] = [0, []];
    row.clear(make("span", { class: "prompt" }, values.prompt));
    more.replaceChildren();
    byId("written-note").textContent = "";
    byId("written-unknown").replaceChildren();
    const done = await ask("write", { ...values, beyond: forget ? "window" : "refuse" }, (part) => {
      count += 1;
      half.push({ ...part, number: count });
      if (!part.text) return;
      shown.push(half);
      half = [];
      const likeliest = part.alternatives[0].token === part.token;
      const text = part.text.trimStart();
      row.add(text || part.text, { before: text ? part.text.slice(0, part.text.length - text.length) : "", look: likeliest ? "" : "second", label: `${visible(part.text)}, ${percent(part.probability)}` });
    });
    row.host.append(make("span", { class: "tone-muted" }, done.stopped ? "" : " …"));
    byId("written-note").textContent = `${done.note} Underlined: not the most likely token.`;
    byId("written-unknown").replaceChildren(...unknownNotes(done));
    announce(`${countOf(done.tokens, "token")} written.`);
    return `${countOf(done.tokens, "token")}${done.stopped ? ", ended by itself" : ""}.`;
  });
};

const alternatives = (part) => {
  const there = part.alternatives.some((other) => other.token === part.token);
  const rows = there ? part.alternatives : [...part.alternatives, part];
  return chances(`Token ${part.number}: what it could have said`, rows, (row) => row.token === part.token);
};

// ---------------------------------------------------------------- fill in
const filling = () => {
  const own = form("fill");
  const text = own.elements.text;
  const more = byId("filled-more");
  let gaps = [];
  const row = new TokenRow(byId("filled"), (n) => more.replaceChildren(chances(`Gap ${n + 1}`, gaps[n], (one) => one === gaps[n][0])));
  own.querySelector("[data-mask]").addEventListener("click", () => {
    text.setRangeText("[MASK]", text.selectionStart, text.selectionEnd, "end");
    text.focus();
  });
  question(own, place, async (values, ask) => {
    const done = await ask("fill", values);
    gaps = done.places;
    const pieces = values.text.split("[MASK]");
    row.clear(pieces[0]);
    gaps.forEach((gap, n) => {
      row.add(gap[0].piece.trim(), { look: "filled", label: `gap ${n + 1}: ${gap[0].piece}, ${percent(gap[0].probability)}` });
      row.host.append(pieces[n + 1] ?? "");
    });
    row.choose(0, false);
  });
};

// ---------------------------------------------------------------- labels
const classifying = (facts) => {
  byId("classify").querySelector(".pair").hidden = !facts.pairs;
  const text = byId("classified");
  const field = new PictureField(form("classify"), facts, place, (seen) => besideIt(text, seen.text));
  const alone = facts.pictures && facts.pictures.text !== "needed";
  text.closest(".field").hidden = alone;
  question(form("classify"), place, async ({ pair, ...values }, ask) => {
    const given = facts.pictures ? await withPicture(values, field) : { text: values.text };
    if (alone) delete given.text;
    const done = await ask("classify", facts.pairs ? { ...given, pair } : given);
    const chosen = [done.answer].flat();
    const rows = done.scores.map(({ label, probability }) => ({ chosen: chosen.includes(label), cells: [make("bdi", {}, label), percent(probability), bar(probability)] }));
    const answer = typeof done.answer === "number" ? short(done.answer) : chosen.join(", ") || "none of the labels";
    byId("classes").replaceChildren(
      make("p", { class: "answer" }, make("bdi", {}, answer)),
      ...(rows.length ? [table("Probability of each label", [{ name: "label" }, { name: "probability", number: true }, { name: "" }], rows)] : []),
      ...done.notes.map((note) => make("p", { class: "notice notice-quick" }, note)));
    announce(answer);
  });
};

const tagging = () => {
  question(form("tag"), place, async ({ text }, ask) => {
    const done = await ask("tag", { text });
    const characters = [...text]; // places count characters, not halves of them
    const shown = [];
    let at = 0;
    for (const span of done.spans) {
      shown.push(characters.slice(at, span.start).join(""), make("mark", { class: "labelled" }, characters.slice(span.start, span.end).join(""), make("small", {}, ` ${span.label}`)));
      at = span.end;
    }
    shown.push(characters.slice(at).join(""));
    const sure = done.confidence === null ? "" : `The word that it is least sure of has a probability of ${percent(done.confidence)}.`;
    byId("tags").replaceChildren(make("p", { class: "marked", dir: "auto" }, ...shown), make("p", { class: "fine" }, done.spans.length ? sure : `No word has a label. ${sure}`),
      ...done.notes.map((note) => make("p", { class: "notice notice-quick" }, note)));
  });
};

const answering = () => {
  question(form("answer"), place, async (values, ask) => {
    const done = await ask("answer", values);
    const characters = [...values.passage];
    const part = (from, to) => characters.slice(from, to).join("");
    const margin = done.margin === null ? "" : `Its score is ${fixed(Math.abs(done.margin), 2)} nats ${done.margin < 0 ? "below" : "above"} that of no answer and the threshold.`;
    const unknown = done.unknown_share >= 0.1 ? ` The tokenizer does not know ${percent(done.unknown_share)} of the passage.` : "";
    byId("answered").replaceChildren(
      make("p", { class: done.answer ? "answer" : "answer tone-muted" }, make("bdi", {}, done.answer ?? "No answer in this passage.")),
      make("p", { class: "marked", dir: "auto" }, part(0, done.start), make("mark", { class: done.answer ? "" : "withheld" }, part(done.start, done.end), done.answer ? "" : make("small", {}, " best span, not given")), part(done.end)),
      make("p", { class: "fine" }, margin + unknown));
    announce(done.answer ?? "No answer in this passage.");
  });
};

// ---------------------------------------------------------------- search and translate
const searching = () => {
  question(form("search"), place, async ({ query, texts, file }, ask) => {
    const { hits } = await ask("search", { query, ...(file.trim() ? { file: file.trim() } : { texts: [texts] }) });
    byId("hits").replaceChildren(...hits.map((hit) =>
      make("li", {}, make("p", { class: "fine" }, make("b", {}, fixed(hit.score, 3)), ` ${hit.file}, ${hit.where}`), make("p", { class: "hit", dir: "auto" }, hit.text))));
    return hits.length ? "" : "Nothing found.";
  });
};

const translating = () => {
  let map = null;
  question(form("translate"), place, async (values, ask) => {
    const done = await ask("translate", values);
    const rows = done.candidates.map((one, n) => ({ chosen: n === 0, cells: [make("bdi", { class: "sentence" }, one.text || "(nothing)", one.stopped ? "" : " …"), fixed(one.score, 3), String(one.tokens)] }));
    byId("translated").replaceChildren(
      table("Candidates, best first. Score: log-probability over tokens to the length penalty.", [{ name: "text" }, { name: "score", number: true }, { name: "tokens", number: true }], rows),
      ...unknownNotes(done));
    byId("alignment").hidden = !done.alignment;
    if (!done.alignment) return;
    const { head, effect, effect_definition: definition, source, written, weights } = done.alignment;
    byId("alignment-note").textContent = `${head[0].toUpperCase()}${head.slice(1)}: the one whose removal changes the output most (${short(effect)}: ${definition}). Rows are tokens as they are written, columns the source.`;
    map ??= new HeatMap(byId("alignment-map"));
    map.show({ title: "Alignment", rows: written, columns: source, values: weights, full: 1,
      sentence: `Weights of ${head} from ${written.length} written tokens to ${source.length} source tokens.`,
      said: (r, c, value) => `${written[r]} looks at ${source[c]}: ${fixed(value, 2)}` });
  });
};

// ---------------------------------------------------------------- losses
const FULL = 8; // nats of the fullest shade: a token of 1 in 3,000
// Tokens that are bytes of one character are one piece of the text, whose loss is the sum of theirs.
const piecesOf = (tokens) => {
  const found = [];
  tokens.forEach((token) => {
    const piece = (found[token.piece] ??= { start: token.start, end: token.end, text: token.text, loss: null, tokens: [] });
    piece.tokens.push(token);
    piece.end = Math.max(piece.end, token.end);
    if (token.loss !== null) piece.loss = (piece.loss ?? 0) + token.loss;
  });
  return found;
};

const tokenLoss = ({ text, tokens }, n) => {
  const { name, loss, probability } = tokens[n];
  const several = tokens.length > 1;
  const rows = [["loss", loss === null ? "none: nothing stands before it" : `${fixed(loss, 2)} nats`], ["probability", percent(probability)], ["in bits", loss === null ? "–" : fixed(loss / Math.LN2, 2)]];
  return make("dl", { class: "facts" }, make("div", {}, make("dt", {}, several ? `token ${n + 1} of ${tokens.length} of ${visible(text)}` : "token"), make("dd", {}, make("bdi", { class: "piece" }, visible(several ? name : text)))),
    rows.map(([title, value]) => make("div", {}, make("dt", {}, title), make("dd", {}, value))));
};

const scoring = () => {
  const more = byId("losses-more");
  let pieces = []; // of the text: a token each, or several that are one character
  const row = new TokenRow(byId("losses-shown"), (n) => more.replaceChildren(...pieces[n].tokens.map((_, k) => tokenLoss(pieces[n], k))));
  question(form("losses"), place, async (values, ask) => {
    const done = await ask("losses", values);
    pieces = piecesOf(done.tokens);
    const characters = [...values.text];
    const part = (from, to) => characters.slice(from, to).join("");
    row.clear();
    let at = 0;
    pieces.forEach(({ start, end, text, loss, tokens }) => {
      const ending = start === end;
      const nats = loss === null ? "no loss" : `${fixed(loss, 2)} nats`;
      row.add(ending ? text : part(start, end), { style: loss === null ? null : shaded(loss / FULL), look: ending ? "ending" : "", before: part(at, start), label: `${visible(text)}: ${nats}${tokens.length > 1 ? ` in ${tokens.length} tokens` : ""}` });
      at = end;
    });
    row.host.append(part(at));
    const facts = [["loss", `${fixed(done.loss, 3)} nats a token`], ["perplexity", short(done.perplexity)], ["bits per byte", fixed(done.bits_per_byte, 3)], ["tokens", String(done.scored)]];
    byId("scores").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
    byId("scores").hidden = false;
    const ground = [0, 0.35, 1].map((stop) => `${shade(stop)} ${100 * stop}%`).join(", ");
    byId("losses-key").replaceChildren(make("p", { class: "grid-key" }, make("span", { class: "ramp-key" }, make("span", { class: "ramp-numbers" }, make("span", {}, "0"), make("span", {}, `${FULL} nats`)), make("i", { class: "ramp", style: `background: linear-gradient(to right, ${ground})` }))));
    byId("losses-note").textContent = done.note;
    const worst = pieces.reduce((most, piece, n) => ((piece.loss ?? -1) > (pieces[most].loss ?? -1) ? n : most), 0);
    row.choose(worst, false);
    announce(`Perplexity ${short(done.perplexity)}. Most surprising: ${visible(pieces[worst].text)}.`);
  });
};

const asking = { write: writing, fill: filling, classify: classifying, tag: tagging, answer: answering, search: searching, caption: captioning, search_pictures: searchingPictures, translate: translating, losses: scoring };
const facts = await openModel(place);
if (facts) {
  const names = Object.keys(asking).filter((name) => facts.can[name]);
  names.forEach((name) => asking[name](facts, place));
  if (names.length) sections(names);
  else {
    byId("nothing").textContent = "This model says nothing that can be shown here: ask it in Python or on the command line (attnlab predict, attnlab search).";
    byId("nothing").hidden = false;
  }
}
document.body.dataset.ready = "";
