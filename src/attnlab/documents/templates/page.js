"use strict";

const canvases = [...document.querySelectorAll("[data-plot]")];

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

// Colours are CSS variables, so that one figure serves light, dark and paper.
const coloured = (part, style) => {
  if (typeof part === "string") {
    const name = /^var\((--[a-z0-9-]+)\)$/.exec(part);
    return name ? style.getPropertyValue(name[1]).trim() : part;
  }
  if (Array.isArray(part)) {
    return typeof part[0] === "number" && typeof part[1] !== "string" ? part : part.map((p) => coloured(p, style));
  }
  if (part && typeof part === "object") {
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, coloured(value, style)]));
  }
  return part;
};

const themed = (layout, style, square) => {
  const colour = (name) => style.getPropertyValue(name).trim();
  const font = { family: colour("--sans"), size: 12, color: colour("--muted") };
  const axis = (own) => ({
    gridcolor: colour("--rule"),
    linecolor: colour("--rule-strong"),
    zerolinecolor: colour("--rule-strong"),
    zeroline: false,
    showline: true,
    ticks: "outside",
    ticklen: 4,
    tickcolor: colour("--rule-strong"),
    automargin: true,
    ...own,
    title: { ...own.title, font, standoff: 8 },
    tickfont: { ...font, size: square ? 10 : 11.5 },
  });
  return {
    ...layout,
    font,
    xaxis: axis(layout.xaxis),
    yaxis: axis(layout.yaxis),
    margin: { l: 8, r: square ? 4 : 20, t: 10, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    dragmode: matchMedia("(hover: hover)").matches ? "zoom" : false,
    hoverlabel: {
      bgcolor: colour("--raised"),
      bordercolor: colour("--rule-strong"),
      font: { ...font, color: colour("--ink") },
      align: "left",
    },
  };
};

const hiddenNames = (figure) =>
  new Set([...figure.querySelectorAll('.legend [aria-pressed="false"]')].map((b) => b.dataset.name));

const draw = (figure, plots) => {
  const style = getComputedStyle(document.documentElement);
  const chosen = [...figure.querySelectorAll(".controls input:checked")].map((input) => input.value);
  const view = plots[figure.dataset.plot].views[chosen.join(",")];
  const hidden = hiddenNames(figure);
  figure.querySelectorAll(".canvas").forEach((canvas, place) => {
    const { data, layout } = coloured(view[place], style);
    const shown = data.map((trace) => ({ ...trace, visible: !hidden.has(trace.legendgroup) }));
    const square = canvas.classList.contains("square");
    const config = { responsive: true, displayModeBar: false, displaylogo: false };
    window.Plotly.react(canvas, shown, themed(layout, style, square), config);
  });
  figure.dataset.drawn = "";
};

const start = async () => {
  const [plots] = await Promise.all([unpack("plots").then(JSON.parse), loadPlotly()]);
  const redraw = () => canvases.filter((f) => "drawn" in f.dataset).forEach((f) => draw(f, plots));

  // A plot is drawn when it comes near the window: a page with many opens at once.
  const observer = new IntersectionObserver(
    (entries) =>
      entries.filter((e) => e.isIntersecting).forEach((e) => {
        observer.unobserve(e.target);
        draw(e.target, plots);
      }),
    { rootMargin: "600px" },
  );
  canvases.forEach((figure) => {
    observer.observe(figure);
    figure.addEventListener("change", () => draw(figure, plots));
    figure.querySelectorAll(".legend button").forEach((button) =>
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        draw(figure, plots);
      }),
    );
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    canvases.forEach((figure) => draw(figure, plots));
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    redraw();
  });
};

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
if (canvases.length) {
  start().catch((error) => {
    console.error(error);
    const note = "This plot could not be drawn: the page needs a browser of 2023 or newer.";
    document.querySelectorAll(".canvas").forEach((canvas) => (canvas.textContent = note));
  });
}
