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
const FORBIDDEN = 255; // a byte that stands for no weight at all
const STEPS = 254; // a weight is the square of its byte's share of them

// A colour of the page as red, green and blue, whatever scheme it is in.
const colour = (name) => {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
};
const css = (name) => `rgb(${[...colour(name)].slice(0, 3).join(",")})`;

const weight = (byte) => (byte === FORBIDDEN ? 0 : (byte / STEPS) ** 2);

// The one ramp of all pages, linear in the weight up to `full`; what is not allowed has the page's own colour.
const shades = (ramp, full) => {
  const stops = ramp.map(([, name]) => colour(name));
  const table = new Uint8ClampedArray(256 * 3);
  for (let byte = 0; byte < 256; byte += 1) {
    const share = Math.min(1, weight(byte) / full);
    const above = ramp.findIndex(([stop], place) => place > 0 && share <= stop);
    const [low, high] = [ramp[above - 1][0], ramp[above][0]];
    const part = (share - low) / (high - low);
    for (let c = 0; c < 3; c += 1)
      table[byte * 3 + c] = stops[above - 1][c] + (stops[above][c] - stops[above - 1][c]) * part;
  }
  table.set(colour("--page").slice(0, 3), FORBIDDEN * 3);
  return table;
};

// Draws maps into the frame of the page, until `signal` says that others take their place. `onChoose` is told
// which head is shown.
const drawAttention = (maps, bytes, { signal, onChoose = () => {} } = {}) => {
  let offset = 0;
  maps.layers.forEach((layer) => {
    layer.offset = offset;
    offset += layer.heads * layer.queries.length * layer.keys.length;
  });
  let [layer, head] = maps.chosen;
  let full = maps.full;
  let table = shades(maps.ramp, full);
  let held = -1; // the query whose lines alone are shown
  let order = "effect";
  let cell = null; // [query, key] that the keyboard or the pointer is at

  const matrix = (l, h) => {
    const of = maps.layers[l];
    const size = of.queries.length * of.keys.length;
    return bytes.subarray(of.offset + h * size, of.offset + (h + 1) * size);
  };
  const reading = (l, h) => maps.heads.find((one) => one.layer === l && one.head === h);

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

  // Where the large map stands, in points of the page.
  const layout = () => {
    const of = maps.layers[layer];
    const named = Math.max(of.queries.length, of.keys.length) <= 48;
    const room = named ? 84 : 8;
    const side = Math.max(4, Math.min(34, Math.floor((element("map").clientWidth - room) / of.keys.length)));
    return { of, named, room, side };
  };

  const drawLarge = () => {
    const { of, named, room, side } = layout();
    const canvas = element("large");
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [room + side * of.keys.length + 1, room + side * of.queries.length + 1];
    [canvas.width, canvas.height] = [wide * scale, high * scale];
    [canvas.style.width, canvas.style.height] = [`${wide}px`, `${high}px`];
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const gap = side >= 8 ? 1 : 0;
    context.strokeStyle = css("--rule-strong");
    matrix(layer, head).forEach((byte, place) => {
      const [q, k] = [Math.floor(place / of.keys.length), place % of.keys.length];
      const [x, y] = [room + k * side, room + q * side];
      context.fillStyle = `rgb(${table.subarray(byte * 3, byte * 3 + 3).join(",")})`;
      context.fillRect(x, y, side - gap, side - gap);
      if (byte !== FORBIDDEN || side < 8) return;
      context.beginPath();
      context.moveTo(x, y + side - gap);
      context.lineTo(x + side - gap, y);
      context.stroke();
    });
    describe(canvas, of);
    ring();
    if (!named) return;
    context.fillStyle = css("--muted");
    context.font = "12px system-ui, sans-serif";
    const every = Math.ceil(13 / side); // names that would cover each other are left out
    of.queries.forEach((word, q) => {
      if (q % every) return;
      context.textAlign = "right";
      context.fillText(short(word), room - 6, room + (q + 0.5) * side + 4);
    });
    of.keys.forEach((word, k) => {
      if (k % every) return;
      context.save();
      context.translate(room + (k + 0.5) * side + 4, room - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(short(word), 0, 0);
      context.restore();
    });
  };

  // Each map has its own words: where its head looks most.
  const describe = (canvas, of) => {
    const values = matrix(layer, head);
    let most = 0;
    values.forEach((byte, place) => { if (weight(byte) > weight(values[most])) most = place; });
    const [q, k] = [Math.floor(most / of.keys.length), most % of.keys.length];
    const name = `${of.name}, head ${head}`;
    canvas.setAttribute("aria-label", `Weights of ${name}: ${of.queries.length} queries on ${of.keys.length} keys. The largest is ${weight(values[most]).toFixed(2)}, ${q} ${of.queries[q]} on ${k} ${of.keys[k]}.`);
    element("map").setAttribute("aria-label", `Map of ${name}: arrow keys move from cell to cell, Enter shows a query alone`);
    element("forbidden").hidden = !values.includes(FORBIDDEN);
  };

  const ring = () => {
    const { room, side } = layout();
    element("ring").hidden = cell === null;
    if (cell === null) return;
    const [q, k] = cell;
    Object.assign(element("ring").style, {
      left: `${room + k * side - 1}px`, top: `${room + q * side - 1}px`, width: `${side + 1}px`, height: `${side + 1}px`,
    });
    const of = maps.layers[layer];
    const byte = matrix(layer, head)[q * of.keys.length + k];
    const told = byte === FORBIDDEN ? "may not attend to" : "attends to";
    const w = weight(byte);
    const much = byte === FORBIDDEN ? "" : `: ${w.toFixed(w < 0.1 ? 3 : 2)}`; // a byte holds no more digits
    element("read").textContent = `${q} ${of.queries[q]} ${told} ${k} ${of.keys[k]}${much}`;
  };

  const step = 18;
  let right = 208; // where the lines end
  const drawLines = () => {
    const of = maps.layers[layer];
    const least = Number(element("least").value);
    const group = element("lines").querySelector("g");
    group.replaceChildren();
    const values = matrix(layer, head);
    const width = of.keys.length;
    of.queries.forEach((_, q) => {
      if (held >= 0 && held !== q) return;
      const row = values.subarray(q * width, (q + 1) * width);
      const most = held >= 0 ? Math.max(0.01, ...row.map(weight)) : 1;
      for (let k = 0; k < width; k += 1) {
        const w = weight(row[k]);
        if (w < (held >= 0 ? Math.min(least, 0.01) : Math.max(least, 0.005))) continue;
        const line = document.createElementNS(SVG, "line");
        const ends = { x1: 122, x2: right, y1: q * step + 14, y2: k * step + 14, "stroke-opacity": Math.max(0.06, w / most) };
        Object.entries(ends).forEach(([key, value]) => line.setAttribute(key, value));
        group.append(line);
      }
    });
    element("lines").querySelectorAll("[role=button]").forEach((token, q) => {
      token.setAttribute("aria-pressed", String(held === q));
      token.classList.toggle("others", held >= 0 && held !== q);
    });
  };

  // All tokens are one stop of the Tab key, and arrow keys go from one to the next.
  const moveAlong = (tokens, event) => {
    const now = tokens.indexOf(document.activeElement);
    const there = { ArrowUp: now - 1, ArrowDown: now + 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (now < 0 || !tokens[there]) return;
    event.preventDefault();
    tokens[there].focus();
  };

  // The words stay where they are while lines change, and so does the focus.
  const drawTokens = () => {
    const of = maps.layers[layer];
    const svg = document.createElementNS(SVG, "svg");
    const high = Math.max(of.queries.length, of.keys.length) * step + 12;
    right = Math.max(208, Math.min(400, element("lines").clientWidth - 124));
    svg.setAttribute("width", right + 122);
    svg.setAttribute("height", high);
    svg.append(document.createElementNS(SVG, "g"));
    const add = (attributes, text) => {
      const made = document.createElementNS(SVG, "text");
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      made.textContent = text;
      svg.append(made);
      return made;
    };
    const tokens = [];
    of.queries.forEach((word, q) => {
      const place = { x: 116, y: q * step + 18, "text-anchor": "end", tabindex: q ? -1 : 0, role: "button" };
      const token = add(place, `${q} ${short(word)}`);
      token.setAttribute("aria-label", `${q} ${word}: its lines alone`);
      const toggle = () => hold(held === q ? -1 : q);
      token.addEventListener("click", toggle);
      token.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle();
      });
      tokens.push(token);
    });
    svg.addEventListener("keydown", (event) => moveAlong(tokens, event));
    svg.addEventListener("focusin", (event) => tokens.forEach((token) => token.setAttribute("tabindex", token === event.target ? 0 : -1)));
    of.keys.forEach((word, k) => add({ x: right + 6, y: k * step + 18 }, `${k} ${short(word)}`));
    element("lines").replaceChildren(svg);
  };
  const hold = (q) => { held = q; drawLines(); };

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
    document.querySelectorAll(".small-row [data-head]").forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset.head === `${layer},${head}`)));
    document.querySelectorAll("#listed tr").forEach((row) => {
      const own = row.dataset.head === `${layer},${head}`;
      row.toggleAttribute("data-chosen", own);
      row.querySelector("button").setAttribute("aria-pressed", String(own));
    });
  };

  const fillHeads = () => {
    const count = maps.layers[layer].heads;
    head = Math.min(head, count - 1);
    if (element("head").options.length !== count)
      element("head").replaceChildren(...Array.from({ length: count }, (_, h) => new Option(String(h), String(h))));
    element("head").value = String(head);
  };

  const choose = (l, h) => {
    const [before, now] = [maps.layers[layer], maps.layers[l]];
    const same = String(before.queries) === String(now.queries) && String(before.keys) === String(now.keys);
    [layer, head] = [l, h];
    if (!same) [held, cell] = [-1, null];
    if (!same || !element("lines").querySelector("svg")) drawTokens();
    element("layer").value = String(l);
    fillHeads();
    drawLarge();
    drawLines();
    tell();
    onChoose(l, h);
  };

  const build = () => {
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
          button.type = "button";
          button.dataset.head = `${l},${h}`;
          button.title = `${of.name}, head ${h}: ${one.kind}, without it ${effect(one.effect)}`;
          button.setAttribute("aria-label", button.title);
          const canvas = document.createElement("canvas");
          canvas.setAttribute("aria-hidden", "true");
          button.append(canvas);
          button.addEventListener("click", () => choose(l, h));
          row.append(button);
        }
        return row;
      }),
    );
  };
  const paint = () => document.querySelectorAll(".small-row [data-head]").forEach((button) => {
    const [l, h] = button.dataset.head.split(",").map(Number);
    drawSmall(button.firstChild, l, h);
  });

  const columns = [
    ["layer", "layer", (one) => maps.layers[one.layer].name],
    ["head", "head", (one) => one.head],
    ["kind", "kind", (one) => one.kind],
    ["entropy", "entropy", (one) => digits(one.entropy, 2)],
    ["distance", "distance", (one) => digits(one.distance, 1)],
    ["effect", "without it", (one) => effect(one.effect)],
  ];
  const rising = (key) => ["layer", "head", "kind"].includes(key);
  const number = (key) => key !== "layer" && key !== "kind";
  const list = () => {
    const sorted = [...maps.heads].sort((a, b) => {
      if (order === "kind") return a.kind.localeCompare(b.kind) || b.effect - a.effect;
      return rising(order) ? a[order] - b[order] || a.head - b.head : b[order] - a[order];
    });
    element("listed").replaceChildren(
      ...sorted.map((one) => {
        const row = document.createElement("tr");
        row.dataset.head = `${one.layer},${one.head}`;
        columns.forEach(([key, , value]) => {
          const cell_ = document.createElement("td");
          if (number(key)) cell_.className = "number";
          if (key === "layer") {
            const button = document.createElement("button");
            button.type = "button";
            button.textContent = value(one);
            button.setAttribute("aria-label", `Show ${value(one)}, head ${one.head}`);
            cell_.append(button);
          } else cell_.textContent = value(one);
          row.append(cell_);
        });
        row.addEventListener("click", () => choose(one.layer, one.head));
        return row;
      }),
    );
    [...element("columns").children].forEach((cell_, place) => {
      const key = columns[place][0];
      if (key === order) cell_.setAttribute("aria-sort", rising(key) ? "ascending" : "descending");
      else cell_.removeAttribute("aria-sort");
    });
    tell();
  };
  element("columns").replaceChildren(
    ...columns.map(([key, title]) => {
      const cell_ = document.createElement("th");
      cell_.scope = "col";
      if (number(key)) cell_.className = "number";
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = title;
      button.addEventListener("click", () => { order = key; list(); });
      cell_.append(button);
      return cell_;
    }),
  );

  const shade = () => {
    table = shades(maps.ramp, full);
    const stops = maps.ramp.map(([stop, name]) => `var(${name}) ${100 * stop}%`);
    element("ramp").style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    element("top").textContent = full < maps.most ? `≥ ${full}` : String(full);
    paint();
    drawLarge();
  };

  element("layer").replaceChildren(...maps.layers.map((of, l) => new Option(of.name, String(l))));
  element("full").replaceChildren(...maps.fulls.map((value) => new Option(String(value), String(value))));
  element("full").value = String(full);
  element("full").addEventListener("change", (event) => { full = Number(event.target.value); shade(); });
  element("layer").addEventListener("change", (event) => choose(Number(event.target.value), head));
  element("head").addEventListener("change", (event) => choose(layer, Number(event.target.value)));
  element("least").addEventListener("input", (event) => {
    element("least-told").textContent = Number(event.target.value).toFixed(2);
    drawLines();
  });

  const under = (event) => {
    const { of, room, side } = layout();
    const [q, k] = [Math.floor((event.offsetY - room) / side), Math.floor((event.offsetX - room) / side)];
    return q < 0 || k < 0 || q >= of.queries.length || k >= of.keys.length ? null : [q, k];
  };
  element("large").addEventListener("mousemove", (event) => { cell = under(event) ?? cell; ring(); });
  element("large").addEventListener("click", (event) => {
    const at = under(event);
    if (at) { cell = at; ring(); hold(held === at[0] ? -1 : at[0]); }
  });
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  element("map").addEventListener("keydown", (event) => {
    const of = maps.layers[layer];
    if (event.key === "Enter" && cell) return hold(held === cell[0] ? -1 : cell[0]);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const move = cell === null ? [0, 0] : moves[event.key];
    const [q, k] = cell ?? [0, 0];
    cell = [
      Math.min(of.queries.length - 1, Math.max(0, q + move[0])),
      Math.min(of.keys.length - 1, Math.max(0, k + move[1])),
    ];
    ring();
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shade, { signal });
  window.addEventListener("resize", drawLarge, { signal });
  build();
  list();
  choose(layer, head);
  shade();
  // In a notebook the page tells its frame how high it is.
  if (window.parent !== window)
    new ResizeObserver(() => window.parent.postMessage({ attnlabHeight: document.body.getBoundingClientRect().bottom + 8 }, "*")).observe(document.body);
};

const start = async () => {
  const maps = JSON.parse(new TextDecoder().decode(await unpack("maps")));
  drawAttention(maps, new Uint8Array(await unpack("weights")));
};
if (element("maps")) {
  start().catch((error) => {
    console.error(error);
    element("measured").textContent = "The maps could not be drawn: the page needs a browser of 2023 or newer.";
  });
}
