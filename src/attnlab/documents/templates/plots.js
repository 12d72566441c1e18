"use strict";

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

const ROOM = 700; // pixels of a canvas from which on names stand at the ends of lines

const themed = (layout, style, canvas) => {
  const colour = (name) => style.getPropertyValue(name).trim();
  const square = canvas.classList.contains("square");
  const font = { family: colour("--sans"), size: 12, color: colour("--muted") };
  const wide = canvas.clientWidth >= ROOM;
  const notes = (layout.annotations || [])
    .filter((note) => wide || note.name !== "end")
    .map((note) => ({ ...note, font: { ...font, ...note.font } }));
  const ends = notes.filter((note) => note.name === "end").map((note) => note.text.length);
  const above = square ? [] : [{
    text: layout.yaxis.title.text, xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom",
    yshift: 6, showarrow: false, font,
  }];
  const axis = (own) => ({
    gridcolor: colour("--rule"),
    linecolor: colour("--rule-strong"),
    zerolinecolor: colour("--axis"),
    zeroline: false,
    showline: true,
    ticks: "outside",
    ticklen: 4,
    tickcolor: colour("--rule-strong"),
    automargin: true,
    ...own,
    title: { ...own.title, font, standoff: 8 },
    tickfont: font,
  });
  const yaxis = axis(layout.yaxis);
  const xaxis = axis(layout.xaxis);
  xaxis.showgrid = false;
  if (!square) yaxis.title = { text: "" };
  return {
    ...layout,
    font,
    xaxis,
    yaxis,
    annotations: [...notes, ...above],
    margin: { l: 8, r: ends.length ? 12 + 7 * Math.max(...ends) : square ? 4 : 20, t: square ? 10 : 30, b: 8 },
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
    canvas.setAttribute("aria-label", (canvas.dataset.whose || "") + view[place].alt);
    const named = canvas.clientWidth >= ROOM; // names beside points would cover one another on a phone
    const shown = data.map((trace) => ({
      ...trace,
      mode: named || !trace.mode ? trace.mode : trace.mode.replace("+text", ""),
      visible: !hidden.has(trace.legendgroup),
    }));
    const config = { responsive: true, displayModeBar: false, displaylogo: false };
    window.Plotly.react(canvas, shown, themed(layout, style, canvas), config);
  });
  figure.dataset.drawn = "";
};

// Pointing at a name mutes the other lines.
const mute = (figure, name) => {
  figure.querySelectorAll(".canvas").forEach((canvas) => {
    if (!canvas.data) return;
    const full = (trace) => (trace.meta && trace.meta.opacity) || 1;
    const opacity = canvas.data.map((trace) => full(trace) * (name && trace.legendgroup !== name ? 0.15 : 1));
    window.Plotly.restyle(canvas, { opacity });
  });
};

// Draws each figure when it comes near the window: a page with many opens at once. `plots` holds what they draw,
// by their names, and may change: `redraw` shows it. `loaded` is fulfilled when plotly is there.
const plotting = (plots, loaded) => {
  const drawn = () => [...document.querySelectorAll("[data-plot][data-drawn]")];
  const show = (figure) => loaded.then(() => draw(figure, plots)).catch((error) => {
    console.error(error);
    const note = "This plot could not be drawn: the page needs a browser of 2023 or newer.";
    figure.querySelectorAll(".canvas").forEach((canvas) => (canvas.textContent = note));
  });
  const observer = new IntersectionObserver(
    (entries) =>
      entries.filter((e) => e.isIntersecting).forEach((e) => {
        observer.unobserve(e.target);
        show(e.target);
      }),
    { rootMargin: "600px" },
  );
  const add = (figure) => {
    observer.observe(figure);
    figure.addEventListener("change", () => show(figure));
    figure.querySelectorAll(".legend button").forEach((button) => {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        show(figure);
      });
      ["mouseenter", "focus"].forEach((on) => button.addEventListener(on, () => mute(figure, button.dataset.name)));
      ["mouseleave", "blur"].forEach((on) => button.addEventListener(on, () => mute(figure, "")));
    });
  };
  const redraw = () => drawn().forEach((figure) => draw(figure, plots));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    if (window.Plotly) document.querySelectorAll("[data-plot]").forEach((figure) => draw(figure, plots));
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    redraw();
  });
  return { add, redraw: (figure) => "drawn" in figure.dataset && draw(figure, plots) };
};
