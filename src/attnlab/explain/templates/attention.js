"use strict";

const unpack = async (id) => {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
};

const element = (id) => document.getElementById(id);
const digits = (number, count) => (number === null ? "–" : Number(number).toFixed(count));
const effect = (number) => Number(number).toPrecision(3);
const SVG = "http://www.w3.org/2000/svg";
const SMALL = 62; // points along a small map, as its style says

// A colour of the page as red, green and blue, whatever scheme it is in.
const colour = (name) => {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
};

const shades = () => {
  const stops = ["--heat-0", "--heat-1", "--heat-2"].map(colour);
  const table = new Uint8ClampedArray(256 * 3);
  for (let byte = 0; byte < 256; byte += 1) {
    const share = byte / 255; // the root of the weight: small weights are seen too
    const [low, high, part] = share < 0.5 ? [stops[0], stops[1], share * 2] : [stops[1], stops[2], share * 2 - 1];
    for (let c = 0; c < 3; c += 1) table[byte * 3 + c] = low[c] + (high[c] - low[c]) * part;
  }
  return table;
};

const start = async () => {
  const maps = JSON.parse(new TextDecoder().decode(await unpack("maps")));
  const bytes = new Uint8Array(await unpack("weights"));
  let offset = 0;
  maps.layers.forEach((layer) => {
    layer.offset = offset;
    offset += layer.heads * layer.queries.length * layer.keys.length;
  });
  let [layer, head] = maps.chosen;
  let table = shades();
  let held = -1; // the query whose lines alone are shown
  let order = "effect";

  const matrix = (l, h) => {
    const of = maps.layers[l];
    const size = of.queries.length * of.keys.length;
    return bytes.subarray(of.offset + h * size, of.offset + (h + 1) * size);
  };
  const reading = (l, h) => maps.heads.find((one) => one.layer === l && one.head === h);
  const weight = (byte) => (byte / 255) ** 2;

  const image = (l, h) => {
    const of = maps.layers[l];
    const made = new ImageData(of.keys.length, of.queries.length);
    matrix(l, h).forEach((byte, place) => {
      for (let c = 0; c < 3; c += 1) made.data[place * 4 + c] = table[byte * 3 + c];
      made.data[place * 4 + 3] = 255;
    });
    return made;
  };

  const drawSmall = (canvas, l, h) => {
    canvas.width = maps.layers[l].keys.length;
    canvas.height = maps.layers[l].queries.length;
    canvas.getContext("2d").putImageData(image(l, h), 0, 0);
    // Where there are more cells than points, leaving some out would lose a diagonal: they are averaged.
    canvas.style.imageRendering = Math.max(canvas.width, canvas.height) > SMALL ? "auto" : "pixelated";
  };

  const short = (word) => (word.length > 12 ? `${word.slice(0, 11)}…` : word);

  const layout = (of) => {
    const named = Math.max(of.queries.length, of.keys.length) <= 48;
    return { named, room: named ? 84 : 8 };
  };

  const drawLarge = () => {
    const of = maps.layers[layer];
    const canvas = element("large");
    const wide = canvas.parentElement.clientWidth;
    const { named, room } = layout(of);
    const cell = Math.min(34, (wide - room) / of.keys.length);
    const scale = window.devicePixelRatio || 1;
    const high = room + cell * of.queries.length + 2;
    canvas.width = wide * scale;
    canvas.height = high * scale;
    canvas.style.height = `${high}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const plain = document.createElement("canvas");
    drawSmall(plain, layer, head);
    context.imageSmoothingEnabled = false;
    context.drawImage(plain, room, room, cell * of.keys.length, cell * of.queries.length);
    if (!named) return;
    context.fillStyle = `rgb(${colour("--muted").slice(0, 3).join(",")})`;
    context.font = `${Math.min(12, cell * 0.8)}px system-ui, sans-serif`;
    of.queries.forEach((word, q) => {
      context.textAlign = "right";
      context.fillText(short(word), room - 5, room + (q + 0.7) * cell);
    });
    of.keys.forEach((word, k) => {
      context.save();
      context.translate(room + (k + 0.7) * cell, room - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(short(word), 0, 0);
      context.restore();
    });
  };

  const drawLines = () => {
    const of = maps.layers[layer];
    const step = 18;
    const least = Number(element("least").value);
    const svg = document.createElementNS(SVG, "svg");
    const high = Math.max(of.queries.length, of.keys.length) * step + 12;
    svg.setAttribute("viewBox", `0 0 400 ${high}`);
    const add = (name, attributes, text = "") => {
      const made = document.createElementNS(SVG, name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      made.textContent = text;
      svg.append(made);
      return made;
    };
    const values = matrix(layer, head);
    const width = of.keys.length;
    of.queries.forEach((_, q) => {
      if (held >= 0 && held !== q) return;
      const row = values.subarray(q * width, (q + 1) * width);
      const most = held >= 0 ? Math.max(0.01, weight(row.reduce((a, b) => Math.max(a, b), 0))) : 1;
      for (let k = 0; k < width; k += 1) {
        const w = weight(values[q * width + k]);
        if (w >= (held >= 0 ? Math.min(least, 0.01) : Math.max(least, 0.005)))
          add("line", { x1: 122, x2: 278, y1: q * step + 14, y2: k * step + 14, "stroke-opacity": Math.max(0.06, w / most) });
      }
    });
    of.queries.forEach((word, q) => {
      const kind = held >= 0 && held !== q ? "dim" : "";
      const text = add("text", { x: 116, y: q * step + 18, "text-anchor": "end", class: kind, tabindex: 0 }, `${q} ${short(word)}`);
      const toggle = () => { held = held === q ? -1 : q; drawLines(); };
      text.addEventListener("click", toggle);
      text.addEventListener("keydown", (event) => event.key === "Enter" && toggle());
    });
    of.keys.forEach((word, k) => add("text", { x: 284, y: k * step + 18 }, `${k} ${short(word)}`));
    element("lines").replaceChildren(svg);
  };

  const tell = () => {
    const one = reading(layer, head);
    const facts = [
      ["kind", one.kind],
      ["mean entropy", `${digits(one.entropy, 2)} nats`],
      ["mean distance", one.distance === null ? "–" : `${digits(one.distance, 1)} tokens`],
      ["without it", `${effect(one.effect)} (rank ${one.rank} of ${maps.heads.length})`],
    ];
    element("measured").replaceChildren(
      ...facts.map(([name, value]) => {
        const span = document.createElement("span");
        const strong = document.createElement("b");
        strong.textContent = value;
        span.append(`${name} `, strong);
        return span;
      }),
    );
    document.querySelectorAll("[data-head]").forEach((part) => {
      const own = part.dataset.head === `${layer},${head}`;
      part.setAttribute(part.tagName === "TR" ? "aria-selected" : "aria-pressed", String(own));
    });
  };

  const fillHeads = () => {
    const count = maps.layers[layer].heads;
    element("head").replaceChildren(...Array.from({ length: count }, (_, h) => new Option(String(h), String(h))));
    head = Math.min(head, count - 1);
    element("head").value = String(head);
  };

  const choose = (l, h) => {
    if (maps.layers[l].queries !== maps.layers[layer].queries) held = -1;
    [layer, head] = [l, h];
    element("layer").value = String(l);
    fillHeads();
    drawLarge();
    drawLines();
    tell();
  };

  const drawAll = () => {
    element("small").replaceChildren(
      ...maps.layers.map((of, l) => {
        const row = document.createElement("div");
        row.className = "small-row";
        const name = document.createElement("span");
        name.textContent = of.name;
        row.append(name);
        for (let h = 0; h < of.heads; h += 1) {
          const button = document.createElement("button");
          const one = reading(l, h);
          button.dataset.head = `${l},${h}`;
          button.title = `${of.name}, head ${h}: ${one.kind}, without it ${effect(one.effect)}`;
          button.setAttribute("aria-label", button.title);
          const canvas = document.createElement("canvas");
          drawSmall(canvas, l, h);
          button.append(canvas);
          button.addEventListener("click", () => choose(l, h));
          row.append(button);
        }
        return row;
      }),
    );
  };

  const columns = [
    ["layer", "layer", (one) => maps.layers[one.layer].name],
    ["head", "head", (one) => one.head],
    ["kind", "kind", (one) => one.kind],
    ["entropy", "entropy", (one) => digits(one.entropy, 2)],
    ["distance", "distance", (one) => digits(one.distance, 1)],
    ["effect", "without it", (one) => effect(one.effect)],
  ];
  const list = () => {
    const sorted = [...maps.heads].sort((a, b) => {
      if (order === "kind") return a.kind.localeCompare(b.kind) || b.effect - a.effect;
      return order === "layer" || order === "head" ? a[order] - b[order] || a.head - b.head : b[order] - a[order];
    });
    element("listed").replaceChildren(
      ...sorted.map((one) => {
        const row = document.createElement("tr");
        row.dataset.head = `${one.layer},${one.head}`;
        columns.forEach(([key, , value]) => {
          const cell = document.createElement("td");
          if (key !== "layer" && key !== "kind") cell.className = "number";
          cell.textContent = value(one);
          row.append(cell);
        });
        row.addEventListener("click", () => choose(one.layer, one.head));
        return row;
      }),
    );
    tell();
  };
  element("columns").replaceChildren(
    ...columns.map(([key, title]) => {
      const cell = document.createElement("th");
      if (key !== "layer" && key !== "kind") cell.className = "number";
      const button = document.createElement("button");
      button.textContent = title;
      button.title = `Sort by ${title}`;
      button.addEventListener("click", () => { order = key; list(); });
      cell.append(button);
      return cell;
    }),
  );

  element("layer").replaceChildren(...maps.layers.map((of, l) => new Option(of.name, String(l))));
  element("layer").addEventListener("change", (event) => choose(Number(event.target.value), head));
  element("head").addEventListener("change", (event) => choose(layer, Number(event.target.value)));
  element("least").addEventListener("input", (event) => {
    element("least-told").value = Number(event.target.value).toFixed(2);
    drawLines();
  });
  element("large").addEventListener("mousemove", (event) => {
    const of = maps.layers[layer];
    const { room } = layout(of);
    const cell = Math.min(34, (event.target.clientWidth - room) / of.keys.length);
    const [q, k] = [Math.floor((event.offsetY - room) / cell), Math.floor((event.offsetX - room) / cell)];
    if (q < 0 || k < 0 || q >= of.queries.length || k >= of.keys.length) return;
    const w = weight(matrix(layer, head)[q * of.keys.length + k]);
    element("read").textContent = `${q} ${of.queries[q]} attends to ${k} ${of.keys[k]}: ${w.toFixed(3)}`;
  });
  element("large").addEventListener("click", (event) => {
    const of = maps.layers[layer];
    const { room } = layout(of);
    const cell = Math.min(34, (event.target.clientWidth - room) / of.keys.length);
    const q = Math.floor((event.offsetY - room) / cell);
    if (q >= 0 && q < of.queries.length) { held = held === q ? -1 : q; drawLines(); }
  });

  const redraw = () => { table = shades(); drawAll(); choose(layer, head); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("resize", drawLarge);
  list();
  redraw();
};

start().catch((error) => {
  console.error(error);
  element("measured").textContent = "The maps could not be drawn: the page needs a browser of 2023 or newer.";
});
