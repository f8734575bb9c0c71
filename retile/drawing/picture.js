// Pictures of frames as SVG. The page (html.cpp) runs this and page.js in one scope of their own. The geometry is that
// of picture.cpp, for dimensions that are chosen in the page; the look is that of svg.cpp.

const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on"))
      node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false)
      node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

// --- Words.

const digits = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const count = (number, noun) => `${digits(number)} ${noun}${number === 1 ? "" : "s"}`;
function quantity(plan, elements) {
  if (plan.bytes === null) return count(elements, "element");
  const bytes = elements * plan.bytes;
  for (const [name, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    const units = bytes / size;
    if (units >= 10 || (units >= 1 && units === Math.floor(units * 100) / 100)) {
      return `${units.toFixed(Number.isInteger(units) ? 0 : units < 100 ? 2 : 1)} ${name}`;
    }
  }
  return count(bytes, "byte");
}
const listDevices = (devices, most) =>
    devices.length <= most ? devices.join(" ") : `${devices.slice(0, most).join(" ")} +${devices.length - most}`;
// Texts and volumes of boxes in the frame's own dimensions: a box has the whole extent of reduced ones.
const boxText = (frame, [lo, hi]) => `[${frame.dimensions.map((d) => `${lo[d]}:${hi[d]}`).join(", ")}]`;
const volume = (frame, [lo, hi]) => frame.dimensions.reduce((size, d) => size * Math.max(0, hi[d] - lo[d]), 1);
const of = (numbers, device) => (Array.isArray(numbers) ? numbers[device] : numbers);
const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`);

function meet(a, b) {
  const lo = a[0].map((from, i) => Math.max(from, b[0][i]));
  const hi = a[1].map((to, i) => Math.min(to, b[1][i]));
  return lo.every((from, i) => from < hi[i]) ? [lo, hi] : null;
}

// --- Geometry, as in picture.cpp.

const gap = 10, labelHeight = 16, relativeDepth = 0.15, textWidth = 0.6;

function isShown(frame, picture, box) {
  return frame.dimensions.every(
      (d) => d === picture.rows || d === picture.columns || d === picture.layered ||
          (box[0][d] <= picture.positions[d] && picture.positions[d] < box[1][d]));
}

function layersOf(plan, frame, picture) {
  const edges = new Set([0, plan.dimensions[picture.layered][1]]);
  for (const box of frame.boxes) {
    if (isShown(frame, picture, box)) edges.add(box[0][picture.layered]).add(box[1][picture.layered]);
  }
  const sorted = [...edges].sort((a, b) => a - b);
  return sorted.slice(1).map((hi, i) => [sorted[i], hi]);
}

function proportions(plan, picture) {
  if (picture.columns < 0) return [0.3, 0.3];
  if (picture.rows < 0) return [1, 0.14];
  const size = (d) => Math.max(1, plan.dimensions[d][1]);
  const ratio = Math.min(1.8, Math.max(0.4, Math.sqrt(size(picture.rows) / size(picture.columns))));
  return ratio <= 1 ? [1, ratio] : [1 / ratio, 1];
}

function makePicture(plan, frame, view, positions, side) {
  const drawn = view.filter((d) => frame.dimensions.includes(d));
  const n = drawn.length;
  const picture = {
    rows: n > 1 ? drawn[n - 2] : -1,
    columns: n > 0 ? drawn[n - 1] : -1,
    layered: n > 2 ? drawn[0] : -1,
    positions,
    layers: []
  };
  const layered = picture.layered >= 0;
  const size = layered ? plan.dimensions[picture.layered][1] : 1;
  const intervals = layered && size > 0 ? layersOf(plan, frame, picture) : [[0, size]];
  const [width, height] = proportions(plan, picture);
  const thickness = ([lo, hi]) => (layered ? relativeDepth * (hi - lo) / Math.max(1, size) : 0);
  const thickest = Math.max(...intervals.map(thickness));
  const label = layered ? labelHeight : 0;
  let scale = 0, columns = 1;
  for (let c = 1; c <= intervals.length; ++c) {
    const fitting = Math.min(
        (side / c - gap) / (width + thickest),
        (side / Math.ceil(intervals.length / c) - gap - label) / (height + thickest));
    if (fitting > scale + 1e-9) [scale, columns] = [fitting, c];
  }
  scale = Math.max(scale, 1);
  const cellWidth = scale * (width + thickest) + gap;
  const cellHeight = scale * (height + thickest) + gap + label;
  intervals.forEach((interval, i) => picture.layers.push({
    interval,
    x: (i % columns) * cellWidth,
    y: Math.floor(i / columns) * cellHeight + label + scale * thickest,
    width: scale * width,
    height: scale * height,
    depth: layered ? Math.max(3, scale * thickness(interval)) : 0,
  }));
  picture.width = Math.min(columns, intervals.length) * cellWidth - gap;
  picture.height = Math.ceil(intervals.length / columns) * cellHeight - gap;
  return picture;
}

function placesOf(plan, frame, picture, box) {
  if (!isShown(frame, picture, box)) return [];
  const span = (d) => {
    if (d < 0) return [0, 1];
    const size = Math.max(1, plan.dimensions[d][1]);
    return [box[0][d] / size, (box[1][d] - box[0][d]) / size];
  };
  const [left, across] = span(picture.columns);
  const [top, down] = span(picture.rows);
  return picture.layers
      .filter(
          ({interval: [lo, hi]}) =>
              picture.layered < 0 || Math.max(lo, box[0][picture.layered]) < Math.min(hi, box[1][picture.layered]))
      .map((layer) => ({
             x: layer.x + layer.width * left,
             y: layer.y + layer.height * top,
             width: layer.width * across,
             height: layer.height * down
           }));
}

// --- Pictures.

const px = (length) => Math.round(length * 10) / 10;
const rectangle = (place, attributes) =>
    shape("rect", {x: px(place.x), y: px(place.y), width: px(place.width), height: px(place.height), ...attributes});
const text = (x, y, size, kind, words, more) =>
    shape("text", {x: px(x), y: px(y), "font-size": px(size), class: kind, ...more}, words);

function labelFor(devices, place, world) {
  const widest = String(world - 1).length;
  for (let most = Math.min(devices.length, 12); most > 0; --most) {
    const words = listDevices(devices, most);
    const size = Math.min(13, place.height * 0.8, (place.width - 3) / (textWidth * Math.max(widest, words.length)));
    if (size >= 9 || (most === 1 && size >= 6)) return {words, size};
  }
  return null;
}

// Labels for boxes that are too small for their numbers. As many as have room are put all the same, beginning in their
// box.
function drawSparse(spots) {
  const font = 8, nodes = [];
  spots.sort((a, b) => Math.round(a.y) - Math.round(b.y) || a.x - b.x);
  let lastRow = -Infinity, freeFrom = 0;
  for (const {x, y, words} of spots) {
    const row = Math.round(y);
    if (row !== lastRow) {
      if (row < lastRow + font + 3) continue;
      lastRow = row;
      freeFrom = -Infinity;
    }
    if (x < freeFrom) continue;
    nodes.push(text(x, y, font, "number sparse", words));
    freeFrom = x + textWidth * font * words.length + 18;
  }
  return nodes;
}

function drawHeld(colors, devices, place, world, sparse) {
  const bands = Math.min(devices.length, place.width < 16 ? 1 : 8);
  const inset = Math.min(0.6, 0.1 * Math.min(place.width, place.height));
  const width = (place.width - 2 * inset) / bands;
  const nodes = [];
  for (let i = 0; i < bands; ++i) {
    nodes.push(rectangle(
        {x: place.x + inset + i * width, y: place.y + inset, width, height: place.height - 2 * inset},
        {class: "held", fill: colors[devices[Math.floor(i * devices.length / bands)]]}));
  }
  if (bands === devices.length) {  // each band may have room for its own number
    const own = labelFor(devices.slice(-1), {width, height: place.height}, world);
    if (own && own.size >= 9) {
      return nodes.concat(devices.map(
          (device, i) =>
              text(place.x + inset + (i + 0.5) * width, place.y + place.height / 2, own.size, "number", `${device}`)));
    }
  }
  const label = labelFor(devices, place, world);
  if (label)
    nodes.push(text(place.x + place.width / 2, place.y + place.height / 2, label.size, "number", label.words));
  else if (sparse)
    sparse.push({x: place.x + 1, y: place.y + place.height / 2, words: listDevices(devices, 1)});
  return nodes;
}

function drawNames(plan, picture) {
  const name = (d) => `${plan.dimensions[d][0]} (${digits(plan.dimensions[d][1])})`;
  const nodes = [];
  const layered = picture.layered < 0 ? "" : `, layers ${name(picture.layered)}`;
  if (picture.columns >= 0)
    nodes.push(text(0, picture.height + 16, 11, "muted", `${name(picture.columns)} →${layered}`));
  if (picture.rows >= 0) {
    nodes.push(shape(
        "text", {
          class: "muted",
          "font-size": 11,
          "text-anchor": "end",
          transform: `translate(-9 ${px(picture.layers[0].y)}) rotate(-90)`
        },
        `← ${name(picture.rows)}`));
  }
  if (picture.layered < 0) return nodes;
  picture.layers.forEach(({interval: [lo, hi], x, y, width, depth}) => {
    const words = hi - lo === 1 ? `${lo}` : `${lo}:${hi}`;
    const size = Math.max(8, Math.min(11, width / (textWidth * words.length)));
    nodes.push(text(x + depth, y - depth - 4, size, "muted", shorten(words, Math.floor(width / (textWidth * size)))));
  });
  return nodes;
}

function drawPicture(plan, frame, picture, colors, choose) {
  const nodes = [];
  for (const {x, y, width, height, depth} of picture.layers) {
    if (depth > 0)
      nodes.push(shape("path", {
        class: "side",
        d: `M${px(x)} ${px(y)}l${px(depth)} ${px(-depth)}h${px(width)}v${px(height)}l${px(-depth)} ${px(depth)}v${
            px(-height)}z`
      }));
    nodes.push(rectangle({x, y, width, height}, {class: "void"}));
  }
  const boxes = shape("g", {class: "boxes"}), sparse = [];
  for (const box of frame.boxes) {
    const devices = box[2];
    for (const place of placesOf(plan, frame, picture, box)) {
      boxes.append(shape(
          "g", {class: "box", onclick: () => choose(devices)},
          ...drawHeld(colors, devices, place, plan.devices, sparse),
          shape(
              "title", {},
              `${devices.length === 1 ? "device" : "devices"} ${listDevices(devices, 32)}: ${boxText(frame, box)}, ${
                  quantity(plan, volume(frame, box))}`)));
    }
  }
  boxes.append(...drawSparse(sparse));
  nodes.push(boxes);
  if (frame.boxes.length === 0) {
    const {x, y, width, height} = picture.layers[0];
    nodes.push(text(x + width / 2, y + height / 2, 12, "muted", "nothing is held", {"text-anchor": "middle"}));
  }
  nodes.push(...drawNames(plan, picture));
  return shape("g", {}, ...nodes);
}

// An arrow from one box to another, at this share of their heights, so that arrows of a row do not hide each other.
function arrow(from, to, share) {
  const [x0, y0] = [from.x + from.width, from.y + from.height * share];
  const [x1, y1] = [to.x, to.y + to.height * share];
  const middle = (x0 + x1) / 2;
  return [
    shape("path", {
      class: "flow",
      d: `M${px(x0)} ${px(y0)}C${px(middle)} ${px(y0)} ${px(middle)} ${px(y1)} ${px(x1 - 6)} ${px(y1)}`
    }),
    shape("circle", {class: "tip", cx: px(x0), cy: px(y0), r: 2}),
    shape("path", {class: "tip", d: `M${px(x1)} ${px(y1)}l-7 -3.5v7z`})
  ];
}
