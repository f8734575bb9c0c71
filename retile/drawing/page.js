// The page of a plan: shows a step as the array before and after it, and what a device gets in between.
// It reads the JSON that html.cpp writes into each section. Only the geometry is here twice (picture.cpp).
"use strict";
(() => {
  const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const shape = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
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
  const boxText = ([lo, hi]) => `[${lo.map((from, i) => `${from}:${hi[i]}`).join(", ")}]`;
  const volume = ([lo, hi]) => lo.reduce((size, from, i) => size * Math.max(0, hi[i] - from), 1);
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
    return frame.dimensions.every((d) =>
      d === picture.rows || d === picture.columns || d === picture.layered ||
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
    const picture = { rows: n > 1 ? drawn[n - 2] : -1, columns: n > 0 ? drawn[n - 1] : -1, layered: n > 2 ? drawn[0] : -1, positions, layers: [] };
    const layered = picture.layered >= 0;
    const size = layered ? plan.dimensions[picture.layered][1] : 1;
    const intervals = layered && size > 0 ? layersOf(plan, frame, picture) : [[0, size]];
    const [width, height] = proportions(plan, picture);
    const thickness = ([lo, hi]) => (layered ? relativeDepth * (hi - lo) / Math.max(1, size) : 0);
    const thickest = Math.max(...intervals.map(thickness));
    const label = layered ? labelHeight : 0;
    let scale = 0, columns = 1;
    for (let c = 1; c <= intervals.length; ++c) {
      const fitting = Math.min((side / c - gap) / (width + thickest),
                               (side / Math.ceil(intervals.length / c) - gap - label) / (height + thickest));
      if (fitting > scale + 1e-9) [scale, columns] = [fitting, c];
    }
    scale = Math.max(scale, 1);
    const cellWidth = scale * (width + thickest) + gap;
    const cellHeight = scale * (height + thickest) + gap + label;
    intervals.forEach((interval, i) => picture.layers.push({
      interval,
      x: (i % columns) * cellWidth, y: Math.floor(i / columns) * cellHeight + label + scale * thickest,
      width: scale * width, height: scale * height,
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
      .filter(({ interval: [lo, hi] }) =>
        picture.layered < 0 || Math.max(lo, box[0][picture.layered]) < Math.min(hi, box[1][picture.layered]))
      .map((layer) => ({ x: layer.x + layer.width * left, y: layer.y + layer.height * top,
                         width: layer.width * across, height: layer.height * down }));
  }

  // --- Pictures.

  const px = (length) => Math.round(length * 10) / 10;
  const rectangle = (place, attributes) =>
    shape("rect", { x: px(place.x), y: px(place.y), width: px(place.width), height: px(place.height), ...attributes });
  const text = (x, y, size, kind, words, more) => shape("text", { x: px(x), y: px(y), "font-size": px(size), class: kind, ...more }, words);

  function labelFor(devices, place, world) {
    const widest = String(world - 1).length;
    for (let most = Math.min(devices.length, 12); most > 0; --most) {
      const words = listDevices(devices, most);
      const size = Math.min(13, place.height * 0.8, (place.width - 3) / (textWidth * Math.max(widest, words.length)));
      if (size >= 9 || (most === 1 && size >= 6)) return { words, size };
    }
    return null;
  }

  // Of boxes that are too small for their numbers, some get theirs all the same, beginning in the box: as many as have
  // room.
  function drawSparse(spots) {
    const font = 8, nodes = [];
    spots.sort((a, b) => Math.round(a.y) - Math.round(b.y) || a.x - b.x);
    let lastRow = -Infinity, freeFrom = 0;
    for (const { x, y, words } of spots) {
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
      nodes.push(rectangle({ x: place.x + inset + i * width, y: place.y + inset, width, height: place.height - 2 * inset },
                           { class: "held", fill: colors[devices[Math.floor(i * devices.length / bands)]] }));
    }
    if (bands === devices.length) {  // each band may have room for its own number
      const own = labelFor(devices.slice(-1), { width, height: place.height }, world);
      if (own && own.size >= 9) {
        return nodes.concat(devices.map((device, i) => text(place.x + inset + (i + 0.5) * width, place.y + place.height / 2, own.size, "number", `${device}`)));
      }
    }
    const label = labelFor(devices, place, world);
    if (label) nodes.push(text(place.x + place.width / 2, place.y + place.height / 2, label.size, "number", label.words));
    else if (sparse) sparse.push({ x: place.x + 1, y: place.y + place.height / 2, words: listDevices(devices, 1) });
    return nodes;
  }

  function drawNames(plan, picture) {
    const name = (d) => `${plan.dimensions[d][0]} (${digits(plan.dimensions[d][1])})`;
    const nodes = [];
    const layered = picture.layered < 0 ? "" : `, layers ${name(picture.layered)}`;
    if (picture.columns >= 0) nodes.push(text(0, picture.height + 16, 11, "muted", `${name(picture.columns)} →${layered}`));
    if (picture.rows >= 0) {
      nodes.push(shape("text", { class: "muted", "font-size": 11, "text-anchor": "end",
                                 transform: `translate(-9 ${px(picture.layers[0].y)}) rotate(-90)` }, `← ${name(picture.rows)}`));
    }
    if (picture.layered < 0) return nodes;
    picture.layers.forEach(({ interval: [lo, hi], x, y, width, depth }) => {
      const words = hi - lo === 1 ? `${lo}` : `${lo}:${hi}`;
      const size = Math.max(8, Math.min(11, width / (textWidth * words.length)));
      nodes.push(text(x + depth, y - depth - 4, size, "muted", shorten(words, Math.floor(width / (textWidth * size)))));
    });
    return nodes;
  }

  function drawPicture(plan, frame, picture, colors, choose) {
    const nodes = [];
    for (const { x, y, width, height, depth } of picture.layers) {
      if (depth > 0) nodes.push(shape("path", { class: "side", d: `M${px(x)} ${px(y)}l${px(depth)} ${px(-depth)}h${px(width)}v${px(height)}l${px(-depth)} ${px(depth)}v${px(-height)}z` }));
      nodes.push(rectangle({ x, y, width, height }, { class: "void" }));
    }
    const boxes = shape("g", { class: "boxes" }), sparse = [];
    for (const box of frame.boxes) {
      const devices = box[2];
      for (const place of placesOf(plan, frame, picture, box)) {
        boxes.append(shape("g", { class: "box", onclick: () => choose(devices) },
          ...drawHeld(colors, devices, place, plan.devices, sparse),
          shape("title", {}, `${devices.length === 1 ? "device" : "devices"} ${listDevices(devices, 32)}: ${boxText(box)}, ${quantity(plan, volume(box))}`)));
      }
    }
    boxes.append(...drawSparse(sparse));
    nodes.push(boxes);
    if (frame.boxes.length === 0) {
      const { x, y, width, height } = picture.layers[0];
      nodes.push(text(x + width / 2, y + height / 2, 12, "muted", "nothing is held", { "text-anchor": "middle" }));
    }
    nodes.push(...drawNames(plan, picture));
    return shape("g", {}, ...nodes);
  }

  // --- A section.

  const stageSide = 400, leftMargin = 30, rightPanel = 560, headingHeight = 34, stageWidth = 980, mostArrows = 40, mostFlying = 600;
  const hasMotion = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

  class Drawing {
    constructor(section) {
      const { plans, colors } = JSON.parse(section.querySelector("script[type='application/json']").textContent);
      this.plans = plans;
      this.colors = colors;
      this.plan = 0;
      this.step = 0;  // 0: source and target
      this.view = [...plans[0].view];
      this.positions = plans[0].dimensions.map(() => 0);
      this.device = this.busiest();
      this.timer = null;
      this.section = section;
      section.drawing = this;
      this.build(section.querySelector(".app"));
      this.show();
    }

    get current() { return this.plans[this.plan]; }
    get steps() { return this.current.steps; }

    picture(frame, side) { return makePicture(this.current, frame, this.view, this.positions, side); }

    // The device that gets the most in the first step that sends something.
    busiest() {
      for (const step of this.plans[this.plan].steps) {
        if (!Array.isArray(step.received)) { if (step.received > 0) return 0; continue; }
        const most = Math.max(...step.received.slice(0, Math.max(1, step.listed)));
        if (most > 0) return step.received.indexOf(most);
      }
      return 0;
    }

    build(app) {
      const button = (words, action, title) => element("button", { type: "button", onclick: action, title }, words);
      this.timelines = element("div", { class: "timeline", role: "group", "aria-label": "memory per device, step by step" });
      this.first = button("Overview", () => this.go(0), "Home");
      this.back = button("◂ Back", () => this.go(this.step - 1), "left arrow");
      this.next = button("Next ▸", () => this.go(this.step + 1, true), "right arrow");
      this.play = button("Play", () => this.toggle(), "space");
      this.deviceInput = element("input", { type: "number", min: 0, max: this.current.devices - 1, onchange: () => this.chooseDevice(Number(this.deviceInput.value)) });
      this.dimensionControls = element("div", { class: "controls small" });
      this.words = element("p", { class: "now", "aria-live": "polite" });
      this.stage = element("div", { class: "stage" });
      this.gets = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "what the device gets and sends" });
      this.traffic = element("div", { class: "traffic" });
      this.more = element("div", { class: "more" }, element("div", {}, this.getsTitle = element("h3"), this.gets), element("div", {}, element("h3", {}, "Who sends to whom"), this.traffic));
      this.holders = element("details", { ontoggle: () => this.showHolders() }, element("summary", {}, "Who holds what, as a table"));
      app.append(this.timelines,
        element("div", { class: "controls", role: "toolbar", "aria-label": "steps" }, this.first, this.back, this.play, this.next,
          element("span", { class: "gap" }), element("label", {}, "follow device", this.deviceInput)),
        this.words, this.stage, this.dimensionControls, this.more, this.holders);
    }

    // --- What is chosen.

    go(step, moves = false) {
      const target = Math.min(Math.max(step, 0), this.steps.length);
      const advances = moves && target === this.step + 1;
      this.step = target;
      this.show(advances && hasMotion());
    }
    goTo(plan, step) {
      this.plan = plan;
      this.positions = this.current.dimensions.map((_, d) => this.positions[d] || 0);
      this.view = this.view.filter((d) => d < this.current.dimensions.length);
      this.go(step);
    }
    chooseDevice(device) {
      if (!(device >= 0 && device < this.current.devices)) device = 0;
      this.device = Math.floor(device);
      this.show();
    }
    // A click on a box goes through its holders.
    chooseAmong(devices) {
      this.chooseDevice(devices[(devices.indexOf(this.device) + 1) % devices.length]);
    }
    chooseDimension(role, dimension) {
      const roles = [-1, -1, -1].concat(this.view).slice(-3);  // layers, rows, columns
      const other = roles.indexOf(dimension);
      if (dimension >= 0 && other >= 0) roles[other] = roles[role];
      roles[role] = dimension;
      this.view = roles.filter((d) => d >= 0);
      this.show();
    }
    toggle() {
      if (this.timer !== null) {
        clearInterval(this.timer);
        this.timer = null;
      } else {
        if (this.step === this.steps.length) this.go(0);
        this.timer = setInterval(() => {
          if (this.step < this.steps.length) this.go(this.step + 1, true);
          if (this.step === this.steps.length) this.toggle();
        }, 2200);
        this.go(this.step + 1, true);
      }
      this.play.textContent = this.timer === null ? "Play" : "Pause";
    }
    key(event) {
      const actions = { ArrowRight: () => this.go(this.step + 1, true), ArrowLeft: () => this.go(this.step - 1),
                        Home: () => this.go(0), End: () => this.go(this.steps.length), " ": () => this.toggle() };
      if (!actions[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
      const name = event.target.tagName;
      if (["INPUT", "SELECT", "TEXTAREA"].includes(name) || (event.key === " " && ["BUTTON", "SUMMARY"].includes(name))) return;
      event.preventDefault();
      actions[event.key]();
    }
    // "#step=2&plan=1&device=3&dimensions=0,2": a place to link to.
    follow(hash) {
      const chosen = new URLSearchParams(hash.replace(/^#/, ""));
      const number = (key, below) => {
        const value = Number(chosen.get(key));
        return Number.isInteger(value) && value >= 0 && value < below ? value : 0;
      };
      if (chosen.has("dimensions")) {
        const wanted = [...new Set(chosen.get("dimensions").split(",").map(Number))];
        this.view = wanted.filter((d) => Number.isInteger(d) && d >= 0 && d < this.current.dimensions.length).slice(0, 3);
      }
      if (chosen.has("device")) this.device = number("device", this.current.devices);
      const plan = number("plan", this.plans.length);
      this.goTo(plan, number("step", this.plans[plan].steps.length + 1));
    }

    // --- What is shown.

    show(moves = false) {
      const plan = this.current;
      this.before = plan.frames[this.step === 0 ? 0 : this.step - 1];
      this.after = plan.frames[this.step === 0 ? plan.frames.length - 1 : this.step];
      if (this.step === 0) this.after = { ...this.after, layout: plan.to };  // without steps, it is the source's frame
      this.pictures = [this.before, this.after].map((frame) => this.picture(frame, stageSide));
      this.back.disabled = this.first.disabled = this.step === 0;
      this.next.disabled = this.step === this.steps.length;
      this.play.disabled = this.steps.length === 0;
      this.deviceInput.value = this.device;
      this.showWords();
      this.showTimelines();
      this.showDimensions();
      this.showStage(moves);
      this.showPieces();
      this.showTraffic();
      this.showHolders();
    }

    showWords() {
      const step = this.steps[this.step - 1];
      const title = step ? `Step ${this.step} of ${this.steps.length}: ${step.operation}`
        : this.steps.length ? `From source to target in ${count(this.steps.length, "step")}` : "Nothing to do";
      const cost = step && step.cost !== null ? ` Cost ${digits(step.cost)}.` : "";
      const words = step ? `${step.sentence}${cost} A device holds at most ${quantity(this.current, step.held)} in this step.`
        : `The array as it is, and as it is wanted. The largest tile on the way has ${quantity(this.current, this.current.peak)}, the larger of source and target ${quantity(this.current, this.current.bound)}.`;
      this.words.replaceChildren(element("b", {}, title), words);
    }

    showTimelines() {
      const most = Math.max(...this.plans.map((plan) => Math.max(plan.peak, plan.bound)), 1);
      const focused = this.timelines.contains(document.activeElement) ? document.activeElement.getAttribute("data-spot") : null;
      this.timelines.replaceChildren(...this.plans.map((plan, index) => this.timeline(plan, index, most)));
      if (focused) this.timelines.querySelector(`[data-spot="${focused}"]`)?.focus();
    }
    timeline(plan, index, most) {
      const top = 36, height = 46, longest = Math.max(0, ...plan.steps.map((step) => step.operation.length));
      const slot = Math.min(stageWidth / plan.frames.length, Math.max(200, 7.4 * longest + 76)), right = slot * plan.frames.length;
      const center = (i) => slot * (i + 0.5);
      const level = (elements) => height * elements / most;
      const nodes = [];
      plan.steps.forEach((step, i) => {
        const isCurrent = index === this.plan && i + 1 === this.step;
        const width = Math.max(24, slot - 58), x = center(i) + slot / 2 - width / 2;
        const words = `${i + 1} ${step.operation}`, size = Math.max(9, Math.min(12, width / (0.6 * words.length)));
        const choose = () => this.goTo(index, i + 1);
        nodes.push(shape("g", { role: "button", tabindex: 0, "data-spot": `${index}.${i}`, "aria-current": isCurrent ? "step" : null,
                                "aria-label": `${plan.name}, step ${i + 1}, ${step.operation}`, onclick: choose,
                                onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); choose(); } } },
          shape("rect", { class: "spot", x: px(x), y: 2, width: px(width), height: top + height + 20, rx: 6 }),
          text(center(i) + slot / 2, 17, size, "name", shorten(words, Math.floor(width / (0.6 * size))), { "text-anchor": "middle" }),
          text(center(i) + slot / 2, 31, 10.5, "muted", step.cost === null ? "" : `cost ${digits(step.cost)}`, { "text-anchor": "middle" })));
      });
      plan.frames.forEach((frame, i) => {
        const bar = Math.max(1, level(frame.elements));
        nodes.push(shape("rect", { class: `bar${frame.elements > plan.bound ? " over" : ""}`, "pointer-events": "none", x: px(center(i) - 17), y: px(top + height - bar), width: 34, height: px(bar), rx: 1.5 }),
          text(center(i), top + height + 14, 10.5, "muted", quantity(plan, frame.elements), { "text-anchor": "middle", "pointer-events": "none" }));
      });
      const bound = px(top + height - level(plan.bound));
      nodes.push(shape("path", { class: "bound", "pointer-events": "none", d: `M0 ${bound}H${px(right)}` }),
        text(right + 6, bound + 3.5, 10.5, "muted", index === 0 && right + 160 < stageWidth ? "larger of source and target" : "", { "pointer-events": "none" }));
      const svg = shape("svg", { viewBox: `0 0 ${stageWidth} ${top + height + 24}`, role: "group", "aria-label": `${plan.name}: tile per device after each step` }, ...nodes);
      return element("div", {}, this.plans.length > 1 ? element("h3", {}, plan.name) : "", svg);
    }

    showDimensions() {
      const plan = this.current;
      const roles = [-1, -1, -1].concat(this.view).slice(-3);
      const nodes = [];
      if (plan.dimensions.length > 1) {
        ["layers", "rows", "columns"].forEach((name, role) => {
          if (role === 0 && plan.dimensions.length < 3) return;
          const options = plan.dimensions.map(([label], d) => element("option", { value: d, selected: roles[role] === d }, label));
          if (role < 2) options.unshift(element("option", { value: -1, selected: roles[role] < 0 }, "none"));
          nodes.push(element("label", {}, name, element("select", { onchange: (event) => this.chooseDimension(role, Number(event.target.value)) }, ...options)));
        });
      }
      plan.dimensions.forEach(([label, size], d) => {
        if (this.view.includes(d) || !plan.frames.some((frame) => frame.boxes.some((box) => box[0][d] > 0))) return;
        nodes.push(element("label", {}, `${label} at`, element("input", { type: "number", min: 0, max: size - 1, value: this.positions[d],
          onchange: (event) => { this.positions[d] = Math.min(size - 1, Math.max(0, Math.floor(Number(event.target.value)) || 0)); this.show(); } })));
      });
      const legend = this.step === 0 ? `outlined: what device ${this.device} holds`
        : `outlined: what device ${this.device} holds; on the right, by who sent it`;
      this.dimensionControls.replaceChildren(...nodes, element("span", { class: "legend" }, legend));
    }

    // The pieces of this step; all of them or those of a device, with their boxes.
    pieces(wanted) {
      const step = this.steps[this.step - 1];
      if (!step) return [];
      const single = (frame) => {
        const boxes = [];
        for (const box of frame.boxes) for (const device of box[2]) boxes[device] = box;
        return boxes;
      };
      const from = single(this.before), to = single(this.after);
      return step.pieces.filter(wanted).map(([sender, receiver, lo, hi]) =>
        ({ from: sender, to: receiver, box: lo ? [lo, hi] : meet(from[sender], to[receiver]) }));
    }

    showStage(moves) {
      const plan = this.current, frames = [this.before, this.after];
      const corners = [leftMargin, rightPanel];
      const height = headingHeight + Math.max(...this.pictures.map((picture) => picture.height)) + 26;
      const svg = shape("svg", { viewBox: `0 0 ${stageWidth} ${px(height)}`, role: "img", "aria-label": `${this.before.layout}, then ${this.after.layout}; the tables below say the same` });
      frames.forEach((frame, side) => {
        const title = this.step === 0 ? ["source", "target"][side] : ["before", "after"][side];
        const words = shorten(frame.layout, 56);
        svg.append(text(corners[side], 12, 12, "muted", title),
          text(corners[side] + 52, 12, Math.min(12.5, 350 / (textWidth * words.length)), "code", words),
          fill(drawPicture(plan, frame, this.pictures[side], this.colors, (devices) => this.chooseAmong(devices)), { transform: `translate(${corners[side]} ${headingHeight})` }, []));
      });
      const places = (side, box) => placesOf(plan, frames[side], this.pictures[side], box)
        .map((place) => ({ ...place, x: place.x + corners[side], y: place.y + headingHeight }));
      const mine = frames.map((frame) => frame.boxes.filter((box) => box[2].includes(this.device)));
      const marks = shape("g", { class: "marks" });
      const pieces = this.pieces(([, to]) => to === this.device);
      // What it holds afterwards, by where it comes from: from others, or kept.
      if (pieces.length) {
        mine[1].forEach((box) => places(1, box).forEach((place) => marks.append(rectangle(place, { class: "void" }))));
        const kept = mine[1].flatMap((box) => mine[0].map((own) => meet(own, box)).filter(Boolean)).map((box) => ({ from: this.device, box }));
        const senders = new Map();  // by place: pieces of several layers may lie behind each other
        for (const { from, box } of [...kept, ...pieces]) {
          for (const place of places(1, box)) {
            const key = JSON.stringify(place);
            senders.set(key, [...(senders.get(key) || []), from]);
          }
        }
        for (const [place, devices] of senders) marks.append(...drawHeld(this.colors, devices, JSON.parse(place), this.current.devices));
      }
      pieces.slice(0, mostArrows).forEach(({ box }, i, { length }) => {
        const from = places(0, box), to = places(1, box);
        for (const place of from) marks.append(rectangle(place, { class: "piece" }));
        if (from.length && to.length) marks.append(...arrow(from[0], to[0], 0.3 + 0.4 * (i + 0.5) / length));
      });
      mine.forEach((boxes, side) => boxes.forEach((box) => places(side, box).forEach((place) => marks.append(rectangle(place, { class: "own" })))));
      svg.append(marks);
      const gapMiddle = (leftMargin + stageSide + rightPanel) / 2 - 8;
      if (this.step === 0) svg.append(shape("path", { class: "between", d: `M${gapMiddle - 26} ${px(height / 2)}h52m-9 -6l9 6l-9 6` }));
      this.stage.replaceChildren(svg);
      if (moves) this.fly(svg, places);
    }

    // What is sent goes from where it was to where it is wanted.
    fly(svg, places) {
      let pieces = this.pieces(() => true);
      if (pieces.length > mostFlying) pieces = pieces.filter(({ to }) => to === this.device);
      const paths = [];
      for (const { from, box } of pieces) {
        const start = places(0, box)[0], end = places(1, box)[0];
        if (!start || !end) continue;
        const node = rectangle(start, { class: "flying", fill: this.colors[from] });
        svg.append(node);
        paths.push({ node, start, end });
      }
      if (paths.length === 0) return;
      const target = svg.querySelectorAll(".boxes")[1], marks = svg.querySelector(".marks");
      const begun = performance.now();
      const frame = (now) => {
        const time = Math.min(1, (now - begun) / 900);
        const eased = time < 0.5 ? 2 * time * time : 1 - (2 - 2 * time) ** 2 / 2;
        for (const { node, start, end } of paths) {
          for (const key of ["x", "y", "width", "height"]) node.setAttribute(key, start[key] + (end[key] - start[key]) * eased);
        }
        target.style.opacity = time < 1 ? 0.15 + 0.5 * eased : 1;
        marks.style.opacity = time < 1 ? 0.2 : 1;
        if (time < 1 && svg.isConnected) requestAnimationFrame(frame);
        else for (const { node } of paths) node.remove();
      };
      requestAnimationFrame(frame);
    }

    showPieces() {
      const step = this.steps[this.step - 1];
      this.more.hidden = !step;
      if (!step) return;
      const plan = this.current, mostRows = 64;
      this.getsTitle.textContent = `Device ${this.device} gets ${quantity(plan, of(step.received, this.device))} and sends ${quantity(plan, of(step.sent, this.device))}`;
      const rows = [];
      const add = (direction, pieces, other) => {
        for (const piece of pieces.slice(0, mostRows)) {
          rows.push(element("tr", {}, element("td", {}, `${direction} ${piece[other]}`), element("td", {}, element("code", {}, boxText(piece.box))), element("td", {}, quantity(plan, volume(piece.box)))));
        }
        if (pieces.length > mostRows) rows.push(element("tr", {}, element("td", { colspan: 3 }, `and ${count(pieces.length - mostRows, "more piece")}`)));
      };
      add("from", this.pieces(([, to]) => to === this.device), "from");
      add("to", this.pieces(([from]) => from === this.device), "to");
      const notes = [];
      if (step.listed < plan.devices) notes.push(element("p", {}, `Pieces are listed for what devices 0 to ${step.listed - 1} get; the square counts all.`));
      if (rows.length === 0) notes.push(element("p", {}, "It neither gets nor sends anything."));
      this.gets.replaceChildren(...notes, element("table", {}, element("tbody", {}, ...rows)));
    }

    showTraffic() {
      const step = this.steps[this.step - 1];
      if (!step) return;
      const { side, per, elements } = step.traffic;
      const width = 250, left = 34, top = 22, cell = width / side;
      const most = Array.isArray(elements) ? elements.reduce((a, b) => Math.max(a, b), 0) : elements;
      const nodes = [rectangle({ x: left, y: top, width, height: width }, { class: "void" })];
      for (let i = 0; i < side * side; ++i) {
        const amount = of(elements, i);
        if (!(amount > 0)) continue;
        const row = Math.floor(i / side), column = i % side;
        const inset = Math.min(0.5, cell * 0.06);
        nodes.push(shape("rect", { class: "cell", x: px(left + column * cell + inset), y: px(top + row * cell + inset), width: px(cell - 2 * inset), height: px(cell - 2 * inset), opacity: (0.12 + 0.6 * amount / most).toFixed(2) },
          side <= 32 ? shape("title", {}, `${row} to ${column}: ${quantity(this.current, amount)}`) : ""));
      }
      const mine = Math.floor(this.device / per);
      nodes.push(rectangle({ x: left + mine * cell, y: top, width: cell, height: width }, { class: "mine" }));
      const every = Math.ceil(side / 8);
      for (let i = 0; i < side; i += every) {
        nodes.push(text(left + (i + 0.5) * cell, top - 5, 10, "muted", String(i * per), { "text-anchor": "middle" }),
                   text(left - 5, top + (i + 0.5) * cell + 3.5, 10, "muted", String(i * per), { "text-anchor": "end" }));
      }
      const what = `${per > 1 ? `${per} devices a row; ` : ""}${quantity(this.current, most)} at most`;
      nodes.push(text(left, top + width + 15, 11, "muted", `rows send, columns get; ${what}`));
      this.traffic.replaceChildren(shape("svg", { viewBox: `0 0 ${left + width + 16} ${top + width + 22}`, role: "img", "aria-label": `who sends to whom, ${what}` }, ...nodes));
    }

    showHolders() {
      if (!this.holders.open) return;
      const rows = this.after.boxes.map((box) => element("tr", {}, element("td", {}, element("code", {}, boxText(box))), element("td", {}, box[2].join(" ")), element("td", {}, quantity(this.current, volume(box)))));
      const table = element("table", {}, element("caption", {}, `${this.step === 0 ? "Target" : `After step ${this.step}`}: ${this.after.layout}`),
        element("thead", {}, element("tr", {}, ...["box", "devices", "size"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows));
      this.holders.querySelector("table")?.remove();
      this.holders.append(table);
    }
  }

  // From one box to another, at this share of their heights: arrows of a row do not hide each other.
  function arrow(from, to, share) {
    const [x0, y0] = [from.x + from.width, from.y + from.height * share];
    const [x1, y1] = [to.x, to.y + to.height * share];
    const middle = (x0 + x1) / 2;
    return [shape("path", { class: "flow", d: `M${px(x0)} ${px(y0)}C${px(middle)} ${px(y0)} ${px(middle)} ${px(y1)} ${px(x1 - 6)} ${px(y1)}` }),
            shape("circle", { class: "tip", cx: px(x0), cy: px(y0), r: 2 }),
            shape("path", { class: "tip", d: `M${px(x1)} ${px(y1)}l-7 -3.5v7z` })];
  }

  document.documentElement.classList.add("scripted");
  const drawings = [...document.querySelectorAll(".drawing")].map((section) => new Drawing(section));
  const chosen = () => drawings.find((drawing) => drawing.section.contains(document.activeElement)) || drawings[0];
  const follow = () => { if (location.hash) chosen().follow(location.hash); };
  document.addEventListener("keydown", (event) => chosen().key(event));
  addEventListener("hashchange", follow);
  follow();
})();
