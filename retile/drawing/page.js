// The page of a plan: shows a step as the array before and after it, and what a device receives in between. Reads the
// JSON that html.cpp writes into each section.

const stageSide = 400, leftMargin = 30, rightPanel = 560, headingHeight = 34, stageWidth = 980, mostArrows = 40,
      mostFlying = 600;
const hasMotion = () => !matchMedia("(prefers-reduced-motion: reduce)").matches;

class Drawing {
  constructor(section) {
    const {plans, colors} = JSON.parse(section.querySelector("script[type='application/json']").textContent);
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

  // The device that receives the most in the first step that sends something.
  busiest() {
    for (const step of this.plans[this.plan].steps) {
      if (!Array.isArray(step.received)) {
        if (step.received > 0) return 0;
        continue;
      }
      const most = Math.max(...step.received.slice(0, Math.max(1, step.listed)));
      if (most > 0) return step.received.indexOf(most);
    }
    return 0;
  }

  build(app) {
    const button = (words, action, title) => element("button", {type: "button", onclick: action, title}, words);
    this.timelines =
        element("div", {class: "timeline", role: "group", "aria-label": "memory per device, step by step"});
    this.first = button("Overview", () => this.go(0), "Home");
    this.back = button("◂ Back", () => this.go(this.step - 1), "left arrow");
    this.next = button("Next ▸", () => this.go(this.step + 1, true), "right arrow");
    this.play = button("Play", () => this.toggle(), "space");
    this.deviceInput = element("input", {
      type: "number",
      min: 0,
      max: this.current.devices - 1,
      onchange: () => this.chooseDevice(Number(this.deviceInput.value))
    });
    this.dimensionControls = element("div", {class: "controls small"});
    this.words = element("p", {class: "now", "aria-live": "polite"});
    this.stage = element("div", {class: "stage"});
    this.gets =
        element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "what the device gets and sends"});
    this.traffic = element("div", {class: "traffic"});
    this.more = element(
        "div", {class: "more"}, element("div", {}, this.getsTitle = element("h3"), this.gets),
        element("div", {}, element("h3", {}, "Who sends to whom"), this.traffic));
    this.holders =
        element("details", {ontoggle: () => this.showHolders()}, element("summary", {}, "Who holds what, as a table"));
    app.append(
        this.timelines,
        element(
            "div", {class: "controls", role: "toolbar", "aria-label": "steps"}, this.first, this.back, this.play,
            this.next, element("span", {class: "gap"}), element("label", {}, "follow device", this.deviceInput)),
        this.words, this.stage, this.dimensionControls, this.more, this.holders);
  }

  // --- Choices of the reader.

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
  // A click on a box selects its next holder.
  chooseAmong(devices) { this.chooseDevice(devices[(devices.indexOf(this.device) + 1) % devices.length]); }
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
    const actions = {
      ArrowRight: () => this.go(this.step + 1, true),
      ArrowLeft: () => this.go(this.step - 1),
      Home: () => this.go(0),
      End: () => this.go(this.steps.length),
      " ": () => this.toggle()
    };
    if (!actions[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    const name = event.target.tagName;
    if (["INPUT", "SELECT", "TEXTAREA"].includes(name) || (event.key === " " && ["BUTTON", "SUMMARY"].includes(name)))
      return;
    event.preventDefault();
    actions[event.key]();
  }
  // A link to what is shown: "#step=2&plan=1&device=3&dimensions=0,2".
  follow(hash) {
    const chosen = new URLSearchParams(hash.replace(/^#/, ""));
    const number = (key, below) => {
      const value = Number(chosen.get(key));
      return Number.isInteger(value) && value >= 0 && value < below ? value : 0;
    };
    if (chosen.has("dimensions")) {
      const wanted = [...new Set(chosen.get("dimensions").split(",").map(Number))];
      const there = wanted.filter((d) => Number.isInteger(d) && d >= 0 && d < this.current.dimensions.length);
      if (there.length) this.view = there.slice(0, 3);
    }
    if (chosen.has("device")) this.device = number("device", this.current.devices);
    const plan = number("plan", this.plans.length);
    this.goTo(plan, number("step", this.plans[plan].steps.length + 1));
  }

  // --- Display.

  show(moves = false) {
    const plan = this.current;
    this.before = plan.frames[this.step === 0 ? 0 : this.step - 1];
    this.after = plan.frames[this.step === 0 ? plan.frames.length - 1 : this.step];
    if (this.step === 0) this.after = {...this.after, layout: plan.to};  // without steps, it is the source's frame
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
    const title = step ? `Step ${this.step} of ${this.steps.length}: ${step.operation}` :
        this.steps.length ? `From source to target in ${count(this.steps.length, "step")}` :
                            "Nothing to do";
    const cost = step && step.cost !== null ? ` Cost ${step.cost}.` : "";
    const amount = (elements) => quantity(this.current, elements);
    const words = step ?
        `${step.sentence}${cost} A device holds at most ${amount(step.held)} in this step.` :
        `The array as it is, and as it is wanted. The largest tile on the way has ${
            amount(this.current.peak)}, the larger of source and target ${amount(this.current.bound)}.`;
    this.words.replaceChildren(element("b", {}, title), words);
  }

  showTimelines() {
    const most = Math.max(...this.plans.map((plan) => Math.max(plan.peak, plan.bound)), 1);
    const focused =
        this.timelines.contains(document.activeElement) ? document.activeElement.getAttribute("data-spot") : null;
    this.timelines.replaceChildren(...this.plans.map((plan, index) => this.timeline(plan, index, most)));
    if (focused) this.timelines.querySelector(`[data-spot="${focused}"]`)?.focus();
  }
  timeline(plan, index, most) {
    const top = 36, height = 46, longest = Math.max(0, ...plan.steps.map((step) => step.operation.length));
    const slot = Math.min(stageWidth / plan.frames.length, Math.max(200, 7.4 * longest + 76)),
          right = slot * plan.frames.length;
    const center = (i) => slot * (i + 0.5);
    const level = (elements) => height * elements / most;
    const nodes = [];
    plan.steps.forEach((step, i) => {
      const isCurrent = index === this.plan && i + 1 === this.step;
      const width = Math.max(24, slot - 58), x = center(i) + slot / 2 - width / 2;
      const words = `${i + 1} ${step.operation}`, size = Math.max(9, Math.min(12, width / (0.6 * words.length)));
      const choose = () => this.goTo(index, i + 1);
      nodes.push(shape(
          "g", {
            role: "button",
            tabindex: 0,
            "data-spot": `${index}.${i}`,
            "aria-current": isCurrent ? "step" : null,
            "aria-label": `${plan.name}, step ${i + 1}, ${step.operation}`,
            onclick: choose,
            onkeydown: (event) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                event.stopPropagation();
                choose();
              }
            }
          },
          shape("rect", {class: "spot", x: px(x), y: 2, width: px(width), height: top + height + 20, rx: 6}),
          text(
              center(i) + slot / 2, 17, size, "name", shorten(words, Math.floor(width / (0.6 * size))),
              {"text-anchor": "middle"}),
          text(
              center(i) + slot / 2, 31, 10.5, "muted", step.cost === null ? "" : `cost ${step.cost}`,
              {"text-anchor": "middle"})));
    });
    plan.frames.forEach((frame, i) => {
      const bar = Math.max(1, level(frame.elements));
      nodes.push(
          shape("rect", {
            class: `bar${frame.elements > plan.bound ? " over" : ""}`,
            "pointer-events": "none",
            x: px(center(i) - 17),
            y: px(top + height - bar),
            width: 34,
            height: px(bar),
            rx: 1.5
          }),
          text(
              center(i), top + height + 14, 10.5, "muted", quantity(plan, frame.elements),
              {"text-anchor": "middle", "pointer-events": "none"}));
    });
    const bound = px(top + height - level(plan.bound));
    nodes.push(
        shape("path", {class: "bound", "pointer-events": "none", d: `M0 ${bound}H${px(right)}`}),
        text(
            right + 6, bound + 3.5, 10.5, "muted",
            index === 0 && right + 160 < stageWidth ? "larger of source and target" : "", {"pointer-events": "none"}));
    const svg = shape(
        "svg", {
          viewBox: `0 0 ${stageWidth} ${top + height + 24}`,
          role: "group",
          "aria-label": `${plan.name}: tile per device after each step`
        },
        ...nodes);
    return element("div", {}, this.plans.length > 1 ? element("h3", {}, plan.name) : "", svg);
  }

  showDimensions() {
    const plan = this.current;
    const roles = [-1, -1, -1].concat(this.view).slice(-3);
    const nodes = [];
    if (plan.dimensions.length > 1) {
      ["layers", "rows", "columns"].forEach((name, role) => {
        if (role === 0 && plan.dimensions.length < 3) return;
        const options =
            plan.dimensions.map(([label], d) => element("option", {value: d, selected: roles[role] === d}, label));
        if (role < 2) options.unshift(element("option", {value: -1, selected: roles[role] < 0}, "none"));
        nodes.push(element(
            "label", {}, name,
            element(
                "select", {onchange: (event) => this.chooseDimension(role, Number(event.target.value))}, ...options)));
      });
    }
    plan.dimensions.forEach(([label, size], d) => {
      if (this.view.includes(d) || !plan.frames.some((frame) => frame.boxes.some((box) => box[0][d] > 0))) return;
      nodes.push(element("label", {}, `${label} at`, element("input", {
                           type: "number",
                           min: 0,
                           max: size - 1,
                           value: this.positions[d],
                           onchange: (event) => {
                             this.positions[d] =
                                 Math.min(size - 1, Math.max(0, Math.floor(Number(event.target.value)) || 0));
                             this.show();
                           }
                         })));
    });
    const legend = this.step === 0 ? `outlined: what device ${this.device} holds` :
                                     `outlined: what device ${this.device} holds; on the right, by who sent it`;
    this.dimensionControls.replaceChildren(...nodes, element("span", {class: "legend"}, legend));
  }

  // The pieces of this step with their boxes: all, or those of a device.
  pieces(wanted) {
    const step = this.steps[this.step - 1];
    if (!step) return [];
    const single = (frame) => {
      const boxes = [];
      for (const box of frame.boxes)
        for (const device of box[2]) boxes[device] = box;
      return boxes;
    };
    const from = single(this.before), to = single(this.after);
    return step.pieces.filter(wanted).map(
        ([sender, receiver, lo, hi]) =>
            ({from: sender, to: receiver, box: lo ? [lo, hi] : meet(from[sender], to[receiver])}));
  }

  showStage(moves) {
    const plan = this.current, frames = [this.before, this.after];
    const corners = [leftMargin, rightPanel];
    const height = headingHeight + Math.max(...this.pictures.map((picture) => picture.height)) + 26;
    const svg = shape("svg", {
      viewBox: `0 0 ${stageWidth} ${px(height)}`,
      role: "img",
      "aria-label": `${this.before.layout}, then ${this.after.layout}; the tables below say the same`
    });
    frames.forEach((frame, side) => {
      const title = this.step === 0 ? ["source", "target"][side] : ["before", "after"][side];
      const words = shorten(frame.layout, 56);
      svg.append(
          text(corners[side], 12, 12, "muted", title),
          text(corners[side] + 52, 12, Math.min(12.5, 350 / (textWidth * words.length)), "code", words),
          fill(
              drawPicture(plan, frame, this.pictures[side], this.colors, (devices) => this.chooseAmong(devices)),
              {transform: `translate(${corners[side]} ${headingHeight})`}, []));
    });
    const places = (side, box) =>
        placesOf(plan, frames[side], this.pictures[side], box)
            .map((place) => ({...place, x: place.x + corners[side], y: place.y + headingHeight}));
    const mine = frames.map((frame) => frame.boxes.filter((box) => box[2].includes(this.device)));
    const marks = shape("g", {class: "marks"});
    const pieces = this.pieces(([, to]) => to === this.device);
    // The boxes that the device holds afterwards, by origin: received or kept.
    if (pieces.length) {
      mine[1].forEach((box) => places(1, box).forEach((place) => marks.append(rectangle(place, {class: "void"}))));
      const kept = mine[1]
                       .flatMap((box) => mine[0].map((own) => meet(own, box)).filter(Boolean))
                       .map((box) => ({from: this.device, box}));
      const senders = new Map();  // by place, because pieces of several layers may lie behind each other
      for (const {from, box} of [...kept, ...pieces]) {
        for (const place of places(1, box)) {
          const key = JSON.stringify(place);
          senders.set(key, [...(senders.get(key) || []), from]);
        }
      }
      for (const [place, devices] of senders)
        marks.append(...drawHeld(this.colors, devices, JSON.parse(place), this.current.devices));
    }
    const every = Math.ceil(pieces.length / mostArrows);  // where there are many, some are drawn, spread over all
    pieces.forEach(({box}, i, {length}) => {
      const from = places(0, box), to = places(1, box);
      for (const place of from) marks.append(rectangle(place, {class: "piece"}));
      if (i % every > 0 || !from.length || !to.length) return;
      marks.append(...arrow(from[0], to[0], 0.3 + 0.4 * (i + 0.5) / length));
    });
    mine.forEach(
        (boxes, side) => boxes.forEach(
            (box) => places(side, box).forEach((place) => marks.append(rectangle(place, {class: "own"})))));
    svg.append(marks);
    const gapMiddle = (leftMargin + stageSide + rightPanel) / 2 - 8;
    if (this.step === 0)
      svg.append(shape("path", {class: "between", d: `M${gapMiddle - 26} ${px(height / 2)}h52m-9 -6l9 6l-9 6`}));
    this.stage.replaceChildren(svg);
    if (moves) this.fly(svg, places);
  }

  // Moves what is sent from where it was to where it is wanted.
  fly(svg, places) {
    let pieces = this.pieces(() => true);
    if (pieces.length > mostFlying) pieces = pieces.filter(({to}) => to === this.device);
    const paths = [];
    for (const {from, box} of pieces) {
      const start = places(0, box)[0], end = places(1, box)[0];
      if (!start || !end) continue;
      const node = rectangle(start, {class: "flying", fill: this.colors[from]});
      svg.append(node);
      paths.push({node, start, end});
    }
    if (paths.length === 0) return;
    const target = svg.querySelectorAll(".boxes")[1], marks = svg.querySelector(".marks");
    const begun = performance.now(), duration = 900;
    const frame = (now) => {
      const time = (now - begun) / duration;
      if (time >= 1) return;
      const eased = time < 0.5 ? 2 * time * time : 1 - (2 - 2 * time) ** 2 / 2;
      for (const {node, start, end} of paths) {
        for (const key of ["x", "y", "width", "height"])
          node.setAttribute(key, start[key] + (end[key] - start[key]) * eased);
      }
      target.style.opacity = 0.15 + 0.5 * eased;
      requestAnimationFrame(frame);
    };
    marks.style.opacity = 0.2;
    requestAnimationFrame(frame);
    setTimeout(() => {  // a timer, because a page in the background gets no animation frames
      for (const {node} of paths) node.remove();
      target.style.opacity = marks.style.opacity = 1;
    }, duration);
  }

  showPieces() {
    const step = this.steps[this.step - 1];
    this.getsTitle.parentElement.hidden = !step;
    if (!step) return;
    const plan = this.current, mostRows = 64;
    this.getsTitle.textContent = `Device ${this.device} gets ${
        quantity(plan, of(step.received, this.device))} and sends ${quantity(plan, of(step.sent, this.device))}`;
    const rows = [];
    const add = (direction, pieces, other) => {
      for (const piece of pieces.slice(0, mostRows)) {
        rows.push(element(
            "tr", {}, element("td", {}, `${direction} ${piece[other]}`),
            element("td", {}, element("code", {}, boxText(this.before, piece.box))),
            element("td", {}, quantity(plan, volume(this.before, piece.box)))));
      }
      if (pieces.length > mostRows)
        rows.push(
            element("tr", {}, element("td", {colspan: 3}, `and ${count(pieces.length - mostRows, "more piece")}`)));
    };
    add("from", this.pieces(([, to]) => to === this.device), "from");
    add("to", this.pieces(([from]) => from === this.device), "to");
    const notes = [];
    if (step.listed < plan.devices)
      notes.push(
          element("p", {}, `The pieces that the first ${step.listed} devices get are listed; the square counts all.`));
    if (of(step.received, this.device) + of(step.sent, this.device) === 0)
      notes.push(element("p", {}, "It neither gets nor sends anything."));
    this.gets.replaceChildren(...notes, element("table", {}, element("tbody", {}, ...rows)));
  }

  // Shows the traffic of one step, or in the overview of all steps together.
  showTraffic() {
    const steps = this.step === 0 ? this.steps : [this.steps[this.step - 1]];
    if (steps.length === 0) {
      this.traffic.replaceChildren(element("p", {}, "Nobody sends anything."));
      return;
    }
    const {side, per} = steps[0].traffic;
    const elements = Array.from(
        {length: side * side}, (_, i) => steps.reduce((sum, step) => sum + of(step.traffic.elements, i), 0));
    const width = 250, left = 34, top = 22, cell = width / side;
    const most = elements.reduce((a, b) => Math.max(a, b), 0);
    const nodes = [rectangle({x: left, y: top, width, height: width}, {class: "void"})];
    for (let i = 0; i < side * side; ++i) {
      const amount = elements[i];
      if (!(amount > 0)) continue;
      const row = Math.floor(i / side), column = i % side;
      const inset = Math.min(0.5, cell * 0.06);
      nodes.push(shape(
          "rect", {
            class: "cell",
            x: px(left + column * cell + inset),
            y: px(top + row * cell + inset),
            width: px(cell - 2 * inset),
            height: px(cell - 2 * inset),
            opacity: (0.12 + 0.6 * amount / most).toFixed(2)
          },
          side <= 32 ? shape("title", {}, `${row} to ${column}: ${quantity(this.current, amount)}`) : ""));
    }
    const mine = Math.floor(this.device / per);
    nodes.push(rectangle({x: left + mine * cell, y: top, width: cell, height: width}, {class: "mine"}));
    const every = Math.ceil(side / 8);
    for (let i = 0; i < side; i += every) {
      nodes.push(
          text(left + (i + 0.5) * cell, top - 5, 10, "muted", String(i * per), {"text-anchor": "middle"}),
          text(left - 5, top + (i + 0.5) * cell + 3.5, 10, "muted", String(i * per), {"text-anchor": "end"}));
    }
    const what = `${per > 1 ? `${per} devices a row; ` : ""}${quantity(this.current, most)} at most`;
    nodes.push(text(left, top + width + 15, 11, "muted", `rows send, columns get; ${what}`));
    this.traffic.replaceChildren(shape(
        "svg", {
          viewBox: `0 0 ${left + width + 16} ${top + width + 22}`,
          role: "img",
          "aria-label": `who sends to whom, ${what}`
        },
        ...nodes));
  }

  showHolders() {
    if (!this.holders.open) return;
    const rows = this.after.boxes.map(
        (box) => element(
            "tr", {}, element("td", {}, element("code", {}, boxText(this.after, box))),
            element("td", {}, box[2].join(" ")), element("td", {}, quantity(this.current, volume(this.after, box)))));
    const table = element(
        "table", {},
        element("caption", {}, `${this.step === 0 ? "Target" : `After step ${this.step}`}: ${this.after.layout}`),
        element(
            "thead", {},
            element("tr", {}, ...["box", "devices", "size"].map((name) => element("th", {scope: "col"}, name)))),
        element("tbody", {}, ...rows));
    this.holders.querySelector("table")?.remove();
    this.holders.append(table);
  }
}

document.documentElement.classList.add("scripted");
const drawings = [...document.querySelectorAll(".drawing")].map((section) => new Drawing(section));
const chosen = () => drawings.find((drawing) => drawing.section.contains(document.activeElement)) || drawings[0];
const follow = () => {
  if (location.hash) chosen().follow(location.hash);
};
document.addEventListener("keydown", (event) => chosen().key(event));
addEventListener("hashchange", follow);
follow();
