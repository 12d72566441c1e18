"use strict";
// A model of pictures is asked to describe one, or to find some by a text.
import { announce } from "/static/live.js";
import { byId, fixed, make, percent, table } from "/static/asking.js";
import { PictureField, found, withPicture } from "/static/pictures.js";
import { question } from "/static/question.js";

const form = (name) => byId(name).querySelector("form");

export const captioning = (facts, place) => {
  const field = new PictureField(form("caption"), facts, place);
  question(form("caption"), place, async (values, ask) => {
    const { candidates } = await ask("caption", await withPicture(values, field));
    const rows = candidates.map((one, n) => ({ chosen: n === 0, cells: [make("bdi", { class: "sentence" }, one.text || "(nothing)", one.stopped ? "" : " …"), fixed(one.score, 3), percent(Math.exp(one.log_probability))] }));
    byId("captions").replaceChildren(
      make("p", { class: "answer" }, make("bdi", {}, candidates[0].text || "(nothing)")),
      table("What the beam found, best first. Score: log-probability over tokens to the length penalty.", [{ name: "text" }, { name: "score", number: true }, { name: "probability", number: true }], rows));
    announce(candidates[0].text);
  });
};

export const searchingPictures = (facts, place) => {
  if (facts.pictures.own) byId("folder-label").textContent = "A folder in the served folder, with all that is below it (empty: the run's own pictures)";
  else byId("folder").required = true;
  question(form("search_pictures"), place, async (values, ask) => {
    const { hits, of, skipped } = await ask("search_pictures", values);
    byId("pictures-found").replaceChildren(...hits.map(found));
    byId("pictures-skipped").replaceChildren(...(skipped.length ? [make("details", {}, make("summary", {}, `${skipped.length} left out`), make("ul", {}, skipped.map((one) => make("li", {}, one))))] : []));
    announce(`The nearest is ${hits[0].name}.`);
    return `The ${hits.length} nearest of ${of.toLocaleString("en")} pictures, by cosine.`;
  });
};
