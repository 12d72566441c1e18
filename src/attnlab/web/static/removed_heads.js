"use strict";
// What is predicted with all heads and without some: labels, the label of each word, or an answer.
import { fixed, make, percent, short, table } from "/static/asking.js";

const [WITH, WITHOUT] = ["with all heads", "without"];
const points = (before, after) => `${after >= before ? "+" : "−"}${(100 * Math.abs(after - before)).toFixed(1)} points`;

const labelsOf = (prediction) => [prediction.answer].flat().map((one) => (typeof one === "number" ? short(one) : one)).join(", ") || "no label";

const labels = ({ before, after }) => {
  const names = Object.keys(before.scores).sort((a, b) => before.scores[b] - before.scores[a]);
  const rows = names.map((name) => ({ cells: [make("bdi", {}, name), percent(before.scores[name]), percent(after.scores[name]), points(before.scores[name], after.scores[name])] }));
  const said = [labelsOf(before), labelsOf(after)];
  const shown = rows.length
    ? table("Probability of each label", [{ name: "label" }, { name: WITH, number: true }, { name: WITHOUT, number: true }, { name: "change", number: true }], rows)
    : make("p", {}, "With all heads: ", make("b", {}, said[0]), ". Without: ", make("b", {}, said[1]), ".");
  return [shown, `With all heads ${said[0]}, without ${said[1]}.`];
};

// Marked: the words whose label is another one.
const words = ({ before, after }) => {
  const pairs = before.words.map((word, n) => [word, after.words[n]]);
  const changed = pairs.filter(([one, other]) => one.tag !== other.tag).length;
  const label = (word) => make("span", {}, make("bdi", {}, word.tag), " ", make("span", { class: "tone-muted" }, percent(word.probability)));
  const rows = pairs.map(([one, other]) => ({ chosen: one.tag !== other.tag, cells: [make("bdi", {}, one.text), label(one), label(other)] }));
  const heads = [{ name: "word" }, { name: WITH }, { name: WITHOUT }];
  const caption = `The label of each word, and its probability. ${changed === 1 ? "1 word has" : `${changed} words have`} another label without.`;
  return [table(caption, heads, rows), caption];
};

const answerOf = (prediction) => prediction.answer || "no answer";
const answer = ({ before, after }) => {
  const row = (name, one) => ({ cells: [name, make("bdi", {}, answerOf(one)), make("bdi", {}, one.span), one.margin === null ? "–" : `${fixed(one.margin, 2)} nats`] });
  const heads = [{ name: "" }, { name: "answer" }, { name: "best span" }, { name: "score", number: true }];
  const caption = "The answer. Score: of the best span, above that of no answer and the threshold; below 0 no answer is given.";
  return [table(caption, heads, [row(WITH, before), row(WITHOUT, after)]), `With all heads ${answerOf(before)}, without ${answerOf(after)}.`];
};

const KINDS = { labels, words, answer };
// What is shown of both predictions, and a sentence of it.
export const bothPredictions = (done) => KINDS[done.kind](done);
