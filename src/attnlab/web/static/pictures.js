"use strict";
// Pictures that a person chooses, as the model sees them, and where heads look on them.
import { stream } from "/static/live.js";
import { make, percent, short } from "/static/asking.js";
import { settled } from "/static/question.js";

const png = (base64) => `data:image/png;base64,${base64}`;

const base64Of = (file) =>
  new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result.split(",")[1] ?? ""));
    reader.addEventListener("error", () => failed(new Error(`${file.name} cannot be read by the browser.`)));
    reader.readAsDataURL(file);
  });

const NO_FILE = "No picture is chosen. A file is not part of the page's address: choose it again.";

// A file of the person's own, or one of the run's own pictures by its number; what was chosen last is asked about.
// `seen(picture)` is told what the model sees.
export class PictureField {
  constructor(form, { pictures }, place, seen = () => {}) {
    [this.box, this.facts, this.place, this.seen] = [form.querySelector("[data-picture]"), pictures, place, seen];
    this.box.hidden = !pictures;
    if (!pictures) return;
    this.file = this.box.querySelector("[type=file]");
    this.number = this.box.querySelector("[type=number]");
    this.number.disabled = !pictures.own;
    this.box.querySelector(".picture-own").hidden = !pictures.own;
    this.chosen = null;
    this.looking = null;
    this.file.addEventListener("change", () => this.file.files.length && this.take(this.file.files[0]));
    const look = settled(() => this.look());
    this.number.addEventListener("input", () => { this.chosen = null; this.file.value = ""; look(); });
    if (pictures.own) look();
  }

  async take(file) {
    this.looking?.abort();
    this.number.value = "";
    this.chosen = null;
    const most = this.facts.bytes;
    if (file.size > most) {
      this.tell(`${file.name} is too large: ${(file.size / 2 ** 20).toFixed(1)} MB, limit ${most / 2 ** 20} MB. Make it smaller, or use the command line, which has no limit.`);
      return;
    }
    this.chosen = base64Of(file).then((data) => ({ name: file.name, data }));
    await this.look();
  }

  // What goes into a question: empty where nothing is chosen, which the answer then says.
  async value() {
    return (await this.chosen) ?? (this.number.value ? { number: Number(this.number.value) } : {});
  }

  async look() {
    this.looking?.abort();
    const own = (this.looking = new AbortController());
    try {
      const picture = await this.value();
      if (!Object.keys(picture).length) return this.tell(NO_FILE);
      const shown = await stream(this.place.replace("{}", "picture"), { picture }, () => {}, own.signal);
      this.tell("");
      const figure = this.box.querySelector("figure");
      const image = figure.querySelector("img");
      [image.src, image.alt] = [png(shown.png), `${shown.name}, as the model sees it`];
      const right = shown.right ? [make("br"), "Right: ", make("bdi", {}, shown.right)] : [];
      figure.querySelector("figcaption").replaceChildren(make("b", {}, make("bdi", {}, shown.name)), ` ${shown.done}`, ...right);
      figure.hidden = false;
      this.seen(shown);
    } catch (error) {
      if (error.name !== "AbortError") this.tell(error.message);
    }
    return null;
  }

  tell(text) {
    const said = this.box.querySelector(".wrong-said");
    [said.textContent, said.hidden] = [text, !text];
    this.box.querySelector("figure").hidden = true;
  }
}

// The values of a form that has a field for a picture.
export const withPicture = async ({ number, ...values }, field) => ({ ...values, picture: await field.value() });

// The text of one of the run's own pictures, unless a person has written another.
export const besideIt = (field, text) => {
  if (field.value && ![text, field.dataset.beside].includes(field.value)) return;
  field.value = field.dataset.beside = text;
};

// A picture with a score and its name, in a list.
export const found = (hit) =>
  make("li", {}, make("figure", { class: "picture" }, make("img", { src: png(hit.png), alt: hit.name }),
    make("figcaption", {}, make("b", {}, hit.score.toFixed(3)), " ", make("bdi", {}, hit.name), hit.right ? make("span", {}, make("br"), make("bdi", {}, hit.right)) : "")));

// ---------------------------------------------------------------- weights on a picture
const SIDE = 144;
const VEIL = "20, 21, 25";

// The picture with its patches darkened by their share of the largest weight.
const drawnOn = (image, side, cells, said) => {
  const scale = window.devicePixelRatio || 1;
  const canvas = make("canvas", { width: SIDE * scale, height: SIDE * scale, role: "img", "aria-label": said });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const most = Math.max(...cells, 1e-12);
  const edge = (n) => Math.round((n * canvas.width) / side);
  cells.forEach((weight, n) => {
    const [x, y] = [n % side, Math.floor(n / side)];
    context.fillStyle = `rgba(${VEIL}, ${(0.85 * (1 - weight / most)).toFixed(3)})`;
    context.fillRect(edge(x), edge(y), edge(x + 1) - edge(x), edge(y + 1) - edge(y));
  });
  return canvas;
};

const brightest = (cells, side) => {
  const place = cells.indexOf(Math.max(...cells));
  return `most at row ${Math.floor(place / side)}, column ${place % side}: ${short(cells[place])}`;
};

const FIRST = 12;

// Heads on the picture in the order of what the output loses without them, and the words of the one that is chosen.
export class PictureHeads {
  constructor(box, picture, { choose, remove, signal }) {
    [this.box, this.picture, this.all] = [box, picture, picture.heads.length <= FIRST];
    this.image = new Image();
    this.image.src = png(picture.png);
    box.hidden = false;
    box.querySelector("#picture-reading").textContent = `${picture.reading} The brightest patch has the most weight of its head, what is dark next to none. In the order of what the output loses without each head: ${picture.measure}.`;
    this.host = box.querySelector("#picture-heads");
    this.more = box.querySelector("#more-heads");
    this.more.textContent = `All ${picture.heads.length} heads`;
    const key = (event) => event.target.closest?.("[data-on-picture]")?.dataset.onPicture;
    this.host.addEventListener("click", (event) => key(event) && choose(key(event)), { signal });
    this.host.addEventListener("keydown", (event) => {
      if (key(event) && ["Delete", "Backspace"].includes(event.key)) { event.preventDefault(); remove(key(event)); }
    }, { signal });
    this.more.addEventListener("click", () => { this.all = true; this.draw(); this.host.children[FIRST]?.focus(); }, { signal });
  }

  async draw() {
    await this.image.decode();
    const { side, heads } = this.picture;
    this.more.hidden = this.all;
    this.host.replaceChildren(...heads.slice(0, this.all ? heads.length : FIRST).map((head) =>
      make("button", { type: "button", class: "picture", "data-on-picture": `${head.layer},${head.head}` },
        drawnOn(this.image, side, head.cells, brightest(head.cells, side)),
        make("span", {}, make("b", {}, head.name), make("br"), `without it ${short(head.effect)}`, make("br"), `${percent(head.share)} of weight on the picture`))));
    this.mark(this.chosen, this.gone);
    this.words();
  }

  // Which head is large, and which ones are removed.
  mark(chosen, gone) {
    [this.chosen, this.gone] = [chosen, gone];
    this.host.querySelectorAll("[data-on-picture]").forEach((button) => {
      button.setAttribute("aria-pressed", String(button.dataset.onPicture === chosen));
      button.classList.toggle("gone", gone.has(button.dataset.onPicture));
    });
  }

  words() {
    const head = this.picture.heads.find((one) => `${one.layer},${one.head}` === this.chosen);
    const words = head?.words ?? [];
    this.box.querySelector("#picture-words").hidden = words.length < 2;
    if (words.length < 2) return;
    this.box.querySelector("#words-title").textContent = head.title;
    this.box.querySelector("#words-shown").replaceChildren(...words.map((word) =>
      make("figure", { class: "picture" }, drawnOn(this.image, this.picture.side, word.cells, `${word.text}: ${brightest(word.cells, this.picture.side)}`),
        make("figcaption", {}, make("b", {}, make("bdi", {}, word.text)), make("br"), `${percent(word.share)} on the picture`))));
  }
}
