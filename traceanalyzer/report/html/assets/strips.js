// Rows of boxes on a canvas: timelines, and the flame graph. A box is [row, start, length, name, token, link].
const RULER = 22, MARKED = 7, ROW = 19, LEDGER_ROW = 16, GAP = 8, LEAST_WORDS = 34, LONGEST_WORDS = 300, FIELDS = 6;
const WIDE_GUTTER = 160, LEAST_TICK = 84, LINK_AFTER_MS = 250;

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;

function inWords(ns) {
  const far = Math.abs(ns);
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (far >= size) return `${(ns / size).toFixed(far >= 100 * size ? 1 : 2)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

class Strip {
  constructor(canvas, id) {
    this.canvas = canvas;
    this.id = id;
    this.v = [0, 1];
    this.focus = -1;
    this.hover = -1;
    new ResizeObserver(() => this.draw()).observe(canvas);
    this.listen();
    onTheme.push(() => this.draw());
  }

  // Takes what to draw: { length, at, mark, cut, lanes: [{ label, note, rows, boxes }] }.
  take(picture) {
    this.picture = picture;
    this.boxes = [];
    this.lanes = [];
    let y = this.ruled ? RULER : 2;
    for (const lane of picture.lanes) {
      const height = picture.mark && lane === picture.lanes[0] && lane.rows === 1 ? LEDGER_ROW : ROW;
      const base = y + lane.rows * height + (lane.tall || 0);
      const below = lane.tall ? base + MARKED : base;
      const columns = lane.tall ? inColumns(lane) : null;
      this.lanes.push({ lane, y, base, columns, end: Math.max(below, lane.note ? y + 18 + 15 * lane.note.split("\n").length : 0) });
      for (let i = 0; i < lane.boxes.length; i += FIELDS) {
        const [row, start, length, name, token, link] = lane.boxes.slice(i, i + FIELDS);
        this.boxes.push({ y: y + row * height, height: height - 1, start, end: start + length, name, token, link });
      }
      y = this.lanes.at(-1).end + GAP;
    }
    this.height = y;
    this.canvas.style.height = `${y}px`;
    this.focus = this.hover = -1;
    this.see(0, picture.length, false);
  }

  // Excerpts and the whole run have named lanes and a ruler; frames have neither.
  get ruled() {
    return Boolean(this.picture.lanes[0].label);
  }

  get gutter() {
    return this.ruled ? (this.canvas.clientWidth < 560 ? 92 : WIDE_GUTTER) : 0;
  }

  x(time) {
    return this.gutter + ((time - this.v[0]) / (this.v[1] - this.v[0])) * (this.canvas.clientWidth - this.gutter);
  }

  time(x) {
    return this.v[0] + ((x - this.gutter) / (this.canvas.clientWidth - this.gutter)) * (this.v[1] - this.v[0]);
  }

  see(a, b, isLinked = true) {
    const whole = this.picture.length;
    const wanted = Math.max(b - a, Math.min(20, whole));
    const span = wanted > whole * (1 - 1e-9) ? whole : wanted;
    const from = Math.min(Math.max(a, 0), whole - span);
    this.v = [from, from + span];
    this.draw();
    if (isLinked && this.link) this.link();
  }

  zoom(factor, at = (this.v[0] + this.v[1]) / 2) {
    this.see(at - (at - this.v[0]) * factor, at + (this.v[1] - at) * factor);
  }

  pan(share) {
    const by = (this.v[1] - this.v[0]) * share;
    this.see(this.v[0] + by, this.v[1] + by);
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (!this.picture || !width) return;
    const sharp = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * sharp);
    this.canvas.height = Math.round(this.height * sharp);
    const pen = this.canvas.getContext("2d");
    pen.scale(sharp, sharp);
    const style = getComputedStyle(root);
    const paint = (name) => style.getPropertyValue(name).trim();
    const fills = ta.data.tokens.map((token) => [paint(`--c-${token}`), paint(`--w-${token}`)]);
    pen.textBaseline = "middle";
    pen.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
    this.drawLanes(pen, paint, width);
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, 0, width - this.gutter, this.height);
    pen.clip();
    if (this.ruled) this.drawRuler(pen, paint, width);
    this.boxes.forEach((box, at) => this.drawBox(pen, paint, fills, box, at));
    for (const place of this.lanes) {
      if (place.lane.line) this.drawLine(pen, paint, place);
      if (place.columns) this.drawColumns(pen, paint, fills, place);
    }
    this.drawLaunch(pen, paint);
    pen.restore();
  }

  drawLanes(pen, paint, width) {
    if (!this.gutter) return;
    pen.fillStyle = paint("--c-panel");
    pen.fillRect(0, 0, this.gutter, this.height);
    for (const { lane, y, end } of this.lanes) {
      pen.fillStyle = paint("--c-text");
      const label = this.gutter < WIDE_GUTTER ? lane.label.replace(/^[GT]PU (?:(\d+) )?stream/, (_, of) => (of ? `${of} · stream` : "stream")) : lane.label;
      pen.fillText(fitted(pen, label, this.gutter - 12), 8, y + 9);
      pen.fillStyle = paint("--c-dim");
      lane.note.split("\n").forEach((words, at) => pen.fillText(fitted(pen, words, this.gutter - 12), 8, y + 25 + 15 * at));
      pen.fillStyle = paint("--c-line");
      pen.fillRect(0, end + GAP / 2 - 1, width, 1);
    }
    pen.fillRect(this.gutter - 1, 0, 1, this.height);
  }

  drawRuler(pen, paint, width) {
    const { mark, cut = [0, 0] } = this.picture;
    const [a, b] = (mark || [0, 0]).map((time) => this.x(time));
    pen.save();
    pen.globalAlpha = 0.09;
    pen.fillStyle = paint("--c-bad");
    if (mark) pen.fillRect(a, RULER - 3, Math.max(b - a, 2), this.height);
    pen.restore();
    const span = this.v[1] - this.v[0];
    const least = (span * LEAST_TICK) / (width - this.gutter);
    const tens = 10 ** Math.floor(Math.log10(least));
    const step = tens * [1, 2, 5, 10].find((factor) => tens * factor >= least * (1 - 1e-9));
    const left = cut[1] ? this.x(cut[0]) : Infinity;
    const leftOut = `${inWords(cut[1])} left out`;
    const room = pen.measureText(leftOut).width + 12;
    const from = Math.ceil(this.v[0] / step) * step;
    for (let time = from; time <= this.v[1]; time += step) {
      const x = this.x(time);
      pen.fillStyle = paint("--c-line");
      pen.fillRect(x, 0, 1, this.height);
      pen.fillStyle = paint("--c-dim");
      const words = time === 0 ? "0" : `+${shortTime(time)}`;
      const end = x + 4 + pen.measureText(words).width;
      if (end < width && (end < left || x > left + room)) pen.fillText(words, x + 4, 9);
    }
    pen.fillStyle = paint("--c-bad");
    if (mark) pen.fillRect(a, RULER - 3, Math.max(b - a, 2), 3);
    if (cut[1]) {
      pen.fillStyle = paint("--c-text");
      const x = this.x(cut[0]);
      for (let y = RULER; y < this.height; y += 6) pen.fillRect(x - 1, y, 2, 3);
      pen.fillText(leftOut, x + 5, 9);
    }
  }

  drawBox(pen, paint, fills, box, at) {
    if (box.end < this.v[0] || box.start > this.v[1]) return;
    const from = Math.max(this.x(box.start), this.gutter - 2);
    const to = Math.min(this.x(box.end), this.canvas.clientWidth + 2);
    const width = Math.max(to - from - (to - from > 3 ? 0.8 : 0), 0.6);
    const [fill, words] = fills[box.token];
    pen.fillStyle = fill;
    pen.fillRect(from, box.y, width, box.height);
    if (width > LEAST_WORDS) {
      pen.fillStyle = words;
      pen.fillText(short(pen, ta.data.names[box.name], width - 7), from + 4, box.y + box.height / 2 + 0.5);
    }
    if (at === this.focus || at === this.hover) {
      pen.strokeStyle = paint("--c-text");
      pen.lineWidth = 1.5;
      pen.strokeRect(from, box.y, Math.max(width, 2), box.height);
    }
  }

  // A value over time, filled down to 0: each holds until the next.
  drawLine(pen, paint, { lane, y, end }) {
    const most = Math.max(...lane.line.filter((_, at) => at % 2));
    pen.beginPath();
    pen.moveTo(this.x(0), end);
    let height = end;
    for (let at = 0; at < lane.line.length; at += 2) {
      const x = this.x(lane.line[at]);
      pen.lineTo(x, height);
      height = end - (lane.line[at + 1] / most) * (end - y);
      pen.lineTo(x, height);
    }
    pen.lineTo(this.x(this.picture.length), height);
    pen.lineTo(this.x(this.picture.length), end);
    pen.save();
    pen.fillStyle = pen.strokeStyle = paint("--c-accent");
    pen.globalAlpha = 0.3;
    pen.fill();
    pen.globalAlpha = 1;
    pen.stroke();
    pen.restore();
  }

  // Columns of what a device was spent on; those outside the analyzed time are pale. Below them: where what was looked for runs.
  drawColumns(pen, paint, fills, { lane, base, columns }) {
    const { cell, each, buckets } = this.picture;
    pen.save();
    // Cells that share a pixel are one column; edges lie between pixels.
    const joined = Math.max(1, Math.ceil((this.v[1] - this.v[0]) / cell / (this.canvas.clientWidth - this.gutter)));
    const sharp = window.devicePixelRatio || 1;
    const edge = (time) => Math.round(this.x(time) * sharp) / sharp;
    for (const [at, parts] of grouped(columns, joined)) {
      const [from, to] = [edge(at * joined * cell), edge((at + 1) * joined * cell)];
      if (to < this.gutter || from > this.canvas.clientWidth) continue;
      let y = base;
      for (const [bucket, ns, kept] of parts) {
        const height = (ns / cell / joined) * lane.tall;
        pen.globalAlpha = kept ? 1 : 0.4;
        pen.fillStyle = fills[buckets[bucket][0]][0];
        pen.fillRect(from, y - height, to - from, height);
        y -= height;
      }
    }
    pen.fillStyle = paint("--c-bad");
    for (const [at, level] of (this.marked && this.marked.get(lane)) || []) {
      const [from, to] = [this.x(at * each * cell), this.x((at + 1) * each * cell)];
      pen.globalAlpha = 0.25 + level / 12;
      pen.fillRect(from, base + 1, Math.max(to - from, 1), MARKED - 1);
    }
    pen.restore();
  }

  columnWords(place, time) {
    const { cell, buckets } = this.picture;
    const at = Math.floor(time / cell);
    const parts = place.columns.get(at);
    if (!parts) return "";
    const said = parts.map(([bucket, ns, kept]) => `${inWords(ns)} ${buckets[bucket][1]}${kept ? "" : " (not counted)"}`);
    return [`${place.lane.label}: ${inWords(cell)} from ${this.when(at * cell)}`, ...said.reverse()].join("\n");
  }

  // What a line or a column says where the pointer is; empty where there is none.
  lineAt(event) {
    const area = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const column = this.lanes.find(({ columns, base, lane }) => columns && y >= base - lane.tall && y <= base + MARKED);
    if (column && x >= this.gutter) return this.columnWords(column, this.time(x));
    const place = this.lanes.find(({ lane, y: from, end }) => lane.line && y >= from && y <= end);
    if (!place || x < this.gutter) return "";
    const time = this.time(x);
    let value = 0;
    for (let at = 0; at < place.lane.line.length && place.lane.line[at] <= time; at += 2) value = place.lane.line[at + 1];
    const said = place.lane.unit === "bytes" ? `${(value / 2 ** 20).toFixed(1)} MiB` : `${value} ${place.lane.unit}`;
    return `${place.lane.label}: ${said}`;
  }

  // An arrow from the call to the work that it launched, while one of the two is pointed at or focused.
  drawLaunch(pen, paint) {
    const box = this.boxes[this.hover >= 0 ? this.hover : this.focus];
    if (!box || !box.link) return;
    const ends = this.boxes.filter((other) => other.link === box.link).sort((one, two) => two.y - one.y);
    const [call, ...work] = ends;
    pen.strokeStyle = pen.fillStyle = paint("--c-text");
    pen.lineWidth = 1.2;
    for (const op of work) {
      const [x1, y1, x2, y2] = [this.x(call.start), call.y, this.x(op.start), op.y + op.height];
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2 + 5);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x2, y2);
      pen.lineTo(x2 - 4, y2 + 7);
      pen.lineTo(x2 + 4, y2 + 7);
      pen.fill();
    }
  }

  hit(event) {
    const area = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    if (x < this.gutter) return -1;
    let best = -1;
    this.boxes.forEach((box, at) => {
      const near = y >= box.y && y <= box.y + box.height && x >= this.x(box.start) - 1.5 && x <= this.x(box.end) + 1.5;
      if (near && (best < 0 || box.end - box.start < this.boxes[best].end - this.boxes[best].start)) best = at;
    });
    return best;
  }

  real(time) {
    const { cut } = this.picture;
    return cut && time > cut[0] ? time + cut[1] : time;
  }

  describe(box) {
    const name = ta.data.names[box.name];
    if (this.says) return this.says(box, name);
    const length = this.real(box.end) - this.real(box.start);
    return `${name}\n${inWords(length)}, at ${this.when(this.real(box.start))}`;
  }

  when(time) {
    const of = this.picture.at === null ? "the timeline" : "the trace";
    return `${((this.picture.at + time) / 1e6).toFixed(3)} ms of ${of}`;
  }

  show(at, x, y, line = "") {
    tip.hidden = at < 0 && !line;
    if (tip.hidden) return;
    tip.textContent = at < 0 ? line : this.describe(this.boxes[at]);
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
  }

  toBox(at) {
    const box = this.boxes[at];
    const around = (box.end - box.start) * (this.picture.mark ? 0.15 : 0);
    this.focus = at;
    this.see(box.start - around, box.end + around);
  }

  step(by) {
    const order = this.boxes.map((_, at) => at).sort((one, two) => {
      const [a, b] = [this.boxes[one], this.boxes[two]];
      return a.start - b.start || a.y - b.y;
    });
    const here = order.indexOf(this.focus);
    const next = here < 0 ? order.findIndex((at) => this.boxes[at].end > this.v[0]) : here + by;
    if (next < 0 || next >= order.length) return;
    this.focus = order[next];
    const box = this.boxes[this.focus];
    if (box.start < this.v[0] || box.start > this.v[1]) {
      const span = this.v[1] - this.v[0];
      this.see(box.start - span / 2, box.start + span / 2);
    }
    this.draw();
    const area = this.canvas.getBoundingClientRect();
    this.show(this.focus, area.left + Math.max(this.x(box.start), this.gutter), area.top + box.y + 8);
  }

  listen() {
    const { canvas } = this;
    let grabbed = null;
    canvas.addEventListener("pointerdown", (event) => {
      grabbed = { x: event.clientX, v: [...this.v], moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (grabbed && Math.abs(event.clientX - grabbed.x) > 3) grabbed.moved = true;
      if (grabbed && grabbed.moved) {
        const by = ((event.clientX - grabbed.x) / (canvas.clientWidth - this.gutter)) * (grabbed.v[1] - grabbed.v[0]);
        this.see(grabbed.v[0] - by, grabbed.v[1] - by);
        return;
      }
      const at = this.hit(event);
      if (at !== this.hover) {
        this.hover = at;
        this.draw();
      }
      this.show(at, event.clientX, event.clientY, this.lineAt(event));
    });
    canvas.addEventListener("pointerup", (event) => {
      const at = this.hit(event);
      if (grabbed && !grabbed.moved && at >= 0) this.toBox(at);
      grabbed = null;
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = -1;
      this.show(-1);
      this.draw();
    });
    canvas.addEventListener("dblclick", () => this.see(0, this.picture.length));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const x = event.clientX - canvas.getBoundingClientRect().left;
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(x));
    }, { passive: false });
    const acts = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.see(0, this.picture.length),
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), n: () => this.step(1), p: () => this.step(-1),
      Enter: () => { if (this.focus >= 0) this.toBox(this.focus); },
      Escape: () => { this.focus = -1; this.show(-1); this.draw(); },
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in acts)) return;
      event.preventDefault();
      acts[event.key]();
    });
    canvas.addEventListener("blur", () => this.show(-1));
  }
}

function shortTime(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size) return `${+(ns / size).toFixed(3)} ${unit}`;
  }
  return `${+ns.toFixed(0)} ns`;
}

function fitted(pen, text, room) {
  const start = text.slice(0, LONGEST_WORDS);
  const width = pen.measureText(start).width;
  if (start === text && width <= room) return text;
  let most = Math.max(Math.floor((start.length * room) / width), 1);
  while (most > 1 && pen.measureText(`${start.slice(0, most)}…`).width > room) most -= 1;
  return `${start.slice(0, most)}…`;
}

// A frame's name is file(line): function. Where it has no room, the folders go first, then the file.
function short(pen, name, room) {
  const frame = /^(?:nn\.Module: |(?:\S*\/)?([^/\s]+\.py\(\d+\)): )(.+)$/.exec(name.slice(0, LONGEST_WORDS));
  if (!frame || pen.measureText(name).width <= room) return fitted(pen, name, room);
  const inFile = frame[1] ? `${frame[1]}: ${frame[2]}` : frame[2];
  return fitted(pen, pen.measureText(inFile).width <= room ? inFile : frame[2], room);
}

// A link to a place: #card@from-to, or #card@row:from-to where another row of the evidence is shown.
const PLACE = /^#(.+?)@(?:(\d+):)?(\d+)-(\d+)$/;

function startStrips() {
  document.body.append(tip);
  document.querySelectorAll("figure.timeline").forEach(startTimeline);
  if (ta.data.timeline) startWhole(document.getElementById("whole"), ta.data.timeline);
  if (ta.data.stacks) startFlames(document.getElementById("flames"), ta.data.stacks);
  ta.go = go;
  const follow = () => {
    const place = PLACE.exec(location.hash);
    if (place) go(decoded(place[1]), Number(place[3]), Number(place[4]), Number(place[2] || 0));
  };
  addEventListener("hashchange", follow);
  follow();
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function go(id, a, b, row = 0) {
  const card = document.getElementById(id);
  const strip = ta.strips.find((item) => item.id === id);
  if (!card || !strip || !(b > a)) return false;
  const folded = card.closest("details");
  if (folded) folded.open = true;
  if (strip.choose) strip.choose(row);
  strip.see(a, b, false);
  card.scrollIntoView();
  return true;
}

function startTimeline(figure) {
  const card = figure.closest("article");
  const strip = new Strip(figure.querySelector("canvas"), card.id);
  const rows = [...card.querySelectorAll("tr[data-excerpt]")];
  let row = 0;
  linkTo(strip, () => `${encodeURIComponent(card.id)}@${row ? `${row}:` : ""}`);
  strip.choose = (at) => {
    if (!rows[at]) return;
    row = at;
    const excerpt = ta.data.excerpts[Number(rows[at].dataset.excerpt)];
    rows.forEach((other) => other.removeAttribute("aria-current"));
    rows[at].setAttribute("aria-current", "true");
    figure.querySelector(".caption-words .dim").textContent = excerpt.caption;
    const open = figure.querySelector(".open code");
    if (open) open.textContent = excerpt.perfetto;
    strip.take(excerpt);
  };
  rows.forEach((element, at) => {
    if (rows.length > 1) element.tabIndex = 0;
    element.addEventListener("click", () => strip.choose(at));
    element.addEventListener("keydown", (event) => { if (event.key === "Enter") strip.choose(at); });
  });
  startZoom(figure, strip);
  ta.strips.push(strip);
  strip.choose(0);
}

function startZoom(figure, strip) {
  figure.querySelector(".zoom").hidden = false;
  const acts = { in: () => strip.zoom(0.5), out: () => strip.zoom(2), fit: () => strip.see(0, strip.picture.length) };
  for (const button of figure.querySelectorAll("[data-act]")) button.addEventListener("click", acts[button.dataset.act]);
}

// What is seen stands in the address.
function linkTo(strip, place) {
  let waiting = 0;
  strip.link = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const [a, b] = strip.v.map(Math.round);
      history.replaceState(null, "", `#${place()}${a}-${b}`);
    }, LINK_AFTER_MS);
  };
}

// Frames as boxes: those inside one another lie below it, side by side in their order, as wide as the chosen time.
function startFlames(figure, frames) {
  const strip = new Strip(figure.querySelector("canvas"), "stacks");
  const choice = figure.querySelector("select");
  const weight = () => Number(choice.value);
  strip.says = (box, name) => {
    const share = ((box.end - box.start) / strip.picture.length) * 100;
    return `${name}\n${choice.selectedOptions[0].textContent}: ${inWords(box.end - box.start)}, ${share.toFixed(1)} %`;
  };
  const choose = () => strip.take(flamePicture(frames, weight()));
  choice.hidden = false;
  choice.addEventListener("change", choose);
  startZoom(figure, strip);
  ta.strips.push(strip);
  choose();
}

function flamePicture(frames, weight) {
  const FRAME = 5, LEAST = 0.0004, LEAST_ROW = 0.002;
  const places = [], boxes = [];
  const first = ta.data.tokens.indexOf("frame-0");
  let whole = 0, rows = 1;
  for (let at = 0; at < frames.length; at += FRAME) if (frames[at] < 0) whole += frames[at + weight];
  whole = Math.max(whole, 1);
  let from = 0;
  for (let at = 0; at < frames.length; at += FRAME) {
    const parent = frames[at] < 0 ? null : places[frames[at]];
    const start = parent ? parent.next : from;
    const room = parent ? parent.end - start : whole - start;
    const length = Math.max(Math.min(frames[at + weight], room), 0);
    const place = { row: parent ? parent.row + 1 : 0, next: start, end: start + length };
    places.push(place);
    if (parent) parent.next += length; else from += length;
    if (length < LEAST * whole) continue;
    if (length >= LEAST_ROW * whole) rows = Math.max(rows, place.row + 1);
    boxes.push(place.row, start, length, frames[at + 1], first + (hashed(ta.data.names[frames[at + 1]]) % 4), 0);
  }
  const drawn = [];
  for (let i = 0; i < boxes.length; i += FIELDS) if (boxes[i] < rows) drawn.push(...boxes.slice(i, i + FIELDS));
  return { length: whole, at: 0, lanes: [{ label: "", note: "", rows, boxes: drawn }] };
}

function hashed(text) {
  let hash = 7;
  for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  return hash;
}
