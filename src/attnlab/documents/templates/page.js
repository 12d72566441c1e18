"use strict";

const unpack = async (id) => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
};

const loadPlotly = async () => {
  const script = document.createElement("script");
  script.textContent = await unpack("plotly");
  document.head.append(script);
};

const plots = {};
const canvases = [...document.querySelectorAll("[data-plot]")];
if (canvases.length) {
  const read = unpack("plots").then((text) => Object.assign(plots, JSON.parse(text)));
  const { add } = plotting(plots, Promise.all([read, loadPlotly()]));
  canvases.forEach(add);
}

const openForPrint = () => {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not([open])")];
    closed.forEach((d) => (d.open = true));
  });
  window.addEventListener("afterprint", () => closed.forEach((d) => (d.open = false)));
};

// Contents stay open beside the text and closed above it.
const contents = document.querySelector(".contents details");
const wide = matchMedia("(min-width: 1120px)");
const place = () => (contents.open = wide.matches);
if (contents) {
  wide.addEventListener("change", place);
  place();
}

openForPrint();
