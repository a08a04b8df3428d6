// The whole run: columns by what the time was spent on, steps and lanes to choose, names to look for.
const TALL = 36, LOW = 14, FEW_LANES = 8, MOST_FOUND = 12;

function startWhole(figure, whole) {
  const strip = new Strip(figure.querySelector("canvas"), "timeline");
  const few = whole.lanes.length <= FEW_LANES;
  const lanes = whole.lanes.map((lane, number) => ({ ...lane, number, ...(few ? { tall: TALL } : { tall: LOW, rows: 0, boxes: [] }) }));
  const [steps, choice] = [figure.querySelector(".steps select"), figure.querySelector(".lanes select")];
  let shown = lanes;
  const take = () => {
    const seen = strip.picture ? strip.v : [0, whole.length];
    strip.take({ ...whole, lanes: shown });
    strip.see(...seen, false);
  };
  take();
  linkTo(strip, () => "timeline@");
  startZoom(figure, strip);
  figure.querySelector(".tools").hidden = false;
  startSearch(figure, strip, whole);
  fillSteps();
  steps.addEventListener("change", () => {
    const [a, b] = steps.value ? steps.value.split("-").map(Number) : [0, whole.length];
    strip.see(a - (b - a) * 0.02, b + (b - a) * 0.02);
  });
  if (choice) {
    choice.append(...["all", ...whole.lanes.map((lane) => lane.label)].map((label, at) => new Option(label, at)));
    choice.addEventListener("change", () => {
      const at = Number(choice.value) - 1;
      shown = at < 0 ? lanes : [{ ...whole.lanes[at], number: at, tall: 2 * TALL }];
      take();
      figure.dispatchEvent(new Event("marks"));
      fillSteps();
    });
  }
  ta.strips.push(strip);

  function fillSteps() {
    const lane = whole.lanes[choice ? Math.max(Number(choice.value) - 1, 0) : 0];
    steps.replaceChildren(new Option("all", ""));
    for (let i = 0; i < lane.boxes.length; i += FIELDS) {
      const [, start, length, name] = lane.boxes.slice(i, i + FIELDS);
      steps.append(new Option(ta.data.names[name].replace(/^step /, ""), `${start}-${start + length}`));
    }
    steps.parentElement.hidden = steps.options.length < 2;
  }
}

// Cell, bucket, time, cell, bucket, time … as the parts of each cell, compute first.
function inColumns(lane) {
  const columns = new Map();
  for (const [numbers, kept] of [[lane.cells, true], [lane.outside, false]]) {
    for (let i = 0; i < numbers.length; i += 3) {
      const [cell, bucket, ns] = numbers.slice(i, i + 3);
      if (!columns.has(cell)) columns.set(cell, []);
      columns.get(cell).push([bucket, ns, kept]);
    }
  }
  for (const parts of columns.values()) parts.sort((one, two) => one[0] - two[0]);
  return columns;
}

// Columns of several neighbours each.
function grouped(columns, count) {
  if (count === 1) return columns;
  const groups = new Map();
  for (const [cell, parts] of columns) {
    const at = Math.floor(cell / count);
    const group = groups.get(at) || [];
    groups.set(at, group);
    for (const [bucket, ns, kept] of parts) {
      const same = group.find((part) => part[0] === bucket && part[2] === kept);
      if (same) same[1] += ns; else group.push([bucket, ns, kept]);
    }
  }
  for (const group of groups.values()) group.sort((one, two) => one[0] - two[0]);
  return groups;
}

// Names that contain the words that are looked for: what they take, and where they run.
function startSearch(figure, strip, whole) {
  const field = figure.querySelector("input");
  const [status, list] = figure.querySelectorAll(".found");
  let only = null, places = [];
  const texts = whole.index.map((entry) => `${entry.kind} ${ta.data.names[entry.name]}`.toLowerCase());
  const mark = () => {
    const wanted = field.value.trim().toLowerCase();
    const found = wanted ? whole.index.filter((_, at) => texts[at].includes(wanted)) : [];
    const chosen = only === null ? found : found.filter((entry) => entry === only);
    strip.marked = marksOf(chosen, strip.picture.lanes);
    const cells = new Set([...strip.marked.values()].flatMap((cells) => [...cells.keys()]));
    places = [...cells].sort((a, b) => a - b);
    status.hidden = list.hidden = !wanted;
    const calls = chosen.reduce((sum, entry) => sum + entry.count, 0);
    const ns = chosen.reduce((sum, entry) => sum + entry.ns, 0);
    const names = `${found.length} of ${whole.index.length} names`;
    const without = chosen.some((entry) => !entry.places.length) ? "; the page has no places of some" : "";
    status.textContent = chosen.length ? `${names}: ${calls.toLocaleString("en")} calls, ${inWords(ns)} in all; Enter goes to the next place${without}` : names;
    list.replaceChildren(...found.slice(0, MOST_FOUND).map(row));
    strip.draw();
  };
  const row = (entry) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = ta.data.names[entry.name];
    button.title = button.textContent;
    button.setAttribute("aria-pressed", String(entry === only));
    button.addEventListener("click", () => {
      only = entry === only ? null : entry;
      mark();
    });
    const words = document.createElement("span");
    words.className = "dim";
    words.textContent = ` ${entry.kind} ×${entry.count.toLocaleString("en")}, ${inWords(entry.ns)}`;
    item.append(button, words);
    return item;
  };
  field.addEventListener("input", () => { only = null; mark(); });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !places.length) return;
    event.preventDefault();
    const each = whole.cell * whole.each;
    const middle = (strip.v[0] + strip.v[1]) / 2 / each;
    const narrow = strip.v[1] - strip.v[0] < whole.length / 2;
    const next = (narrow && places.find((at) => at > middle)) || places[0];
    strip.see((next - 3.5) * each, (next + 4.5) * each);
  });
  figure.addEventListener("marks", mark);
}

// For each lane: cell to level, the most of all chosen names.
function marksOf(chosen, lanes) {
  const marks = new Map();
  for (const entry of chosen) {
    for (const [of, first, digits] of entry.places) {
      for (const lane of lanes.filter((item) => (entry.on === "lane" ? item.number : item.trace) === of)) {
        const cells = marks.get(lane) || new Map();
        [...digits].forEach((digit, at) => {
          if (digit !== "0") cells.set(first + at, Math.max(cells.get(first + at) || 0, Number(digit)));
        });
        marks.set(lane, cells);
      }
    }
  }
  return marks;
}
