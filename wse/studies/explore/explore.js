// The page of a table: any two columns against each other, filters, the Pareto front. All texts become text nodes.
const DATA = JSON.parse(document.getElementById("data").textContent);
const COLUMNS = DATA.columns;
const MOST_COLOURS = 6;
const MOST_WORDS = 40;
const FIRST_FILTERS = 6;
const STEPS = 200;
const MARGIN = { left: 64, right: 14, top: 12, bottom: 40 };
const at = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node[name] = value;
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(3);
  return size >= 100 ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : String(Number(value.toPrecision(5)));
}

const place = (column, row) => (column.numbers ? column.numbers[row] : column.codes[row]);
const cell = (column, row) => {
  if (column.numbers) return text(column.numbers[row]);
  return column.codes[row] === null ? "" : column.words[column.codes[row]];
};

function extent(column) {
  if (!column.numbers) return [0, column.words.length - 1];
  let low = Infinity;
  let high = -Infinity;
  for (const value of column.numbers) if (value !== null) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

const EXTENTS = COLUMNS.map(extent);
const isLog = (index) => Boolean(COLUMNS[index].numbers) && EXTENTS[index][0] > 0 && EXTENTS[index][1] > 30 * EXTENTS[index][0];

function firstState() {
  const words = COLUMNS.findIndex((column) => column.axis && column.words && column.words.length <= MOST_COLOURS);
  const filters = COLUMNS.flatMap((column, index) => (column.axis && canFilter(column) ? [index] : []));
  return {
    x: DATA.x, y: DATA.y, colour: words, xlog: isLog(DATA.x), ylog: isLog(DATA.y),
    xless: COLUMNS[DATA.x].less, yless: COLUMNS[DATA.y].less,
    filters: filters.slice(0, FIRST_FILTERS), ranges: {}, hidden: {}, row: null,
  };
}

const canFilter = (column) => Boolean(column.numbers) || column.words.length <= MOST_WORDS;
const isIndex = (value) => Number.isInteger(value) && value >= 0 && value < COLUMNS.length;

// The state of an address, as far as it is one of this table; nothing in it is trusted.
function stateOf(hash) {
  const state = firstState();
  let given;
  try {
    given = JSON.parse(decodeURIComponent(hash.slice(1)));
  } catch {
    return state;
  }
  if (given === null || typeof given !== "object") return state;
  for (const name of ["x", "y"]) if (isIndex(given[name])) state[name] = given[name];
  if (given.colour === -1 || isIndex(given.colour)) state.colour = given.colour;
  for (const name of ["xlog", "ylog", "xless", "yless"]) if (typeof given[name] === "boolean") state[name] = given[name];
  if (Array.isArray(given.filters)) state.filters = [...new Set(given.filters)].filter((i) => isIndex(i) && canFilter(COLUMNS[i]));
  for (const [name, range] of Object.entries(given.ranges ?? {}))
    if (isIndex(Number(name)) && Array.isArray(range) && range.length === 2 && range.every(Number.isFinite)) state.ranges[name] = range;
  for (const [name, codes] of Object.entries(given.hidden ?? {}))
    if (isIndex(Number(name)) && Array.isArray(codes)) state.hidden[name] = codes.filter(Number.isInteger);
  if (Number.isInteger(given.row) && given.row >= 0 && given.row < DATA.rows) state.row = given.row;
  return state;
}

let state;
let shown = [];
let front = [];
let points = [];

function keeps(row) {
  for (const [name, [low, high]] of Object.entries(state.ranges)) {
    const value = COLUMNS[name].numbers?.[row];
    if (value === null || value === undefined || value < low || value > high) return false;
  }
  for (const [name, codes] of Object.entries(state.hidden)) if (codes.includes(COLUMNS[name].codes?.[row] ?? -1)) return false;
  return true;
}

// Rows that no other one of `rows` is better than in one column and as good in the other.
function paretoFront(rows) {
  const [x, y] = [COLUMNS[state.x], COLUMNS[state.y]];
  if (!x.numbers || !y.numbers) return [];
  const [signX, signY] = [state.xless ? -1 : 1, state.yless ? -1 : 1];
  const sorted = [...rows].sort((a, b) => signX * (x.numbers[b] - x.numbers[a]) || signY * (y.numbers[b] - y.numbers[a]));
  const best = [];
  let most = -Infinity;
  let last = null;
  for (const row of sorted) {
    const value = signY * y.numbers[row];
    const same = last !== null && x.numbers[row] === x.numbers[last] && y.numbers[row] === y.numbers[last];
    if (value > most || same) best.push(row);
    if (value > most) [most, last] = [value, row];
  }
  return best;
}

function axis(index, log, from, to) {
  const column = COLUMNS[index];
  if (!column.numbers) {
    const step = (to - from) / column.words.length;
    const every = Math.ceil(column.words.length / 12);
    const ticks = column.words.map((word, code) => [from + step * (code + 0.5), word]).filter((_, code) => code % every === 0);
    return { to: (code) => from + step * (code + 0.5), ticks };
  }
  const values = shown.map((row) => column.numbers[row]);
  let low = values.reduce((a, b) => Math.min(a, b), Infinity);
  let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!values.length) [low, high] = EXTENTS[index];
  if (log && low > 0) {
    [low, high] = [low / 1.15, high * 1.15];
    const to_ = (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
    const first = Math.floor(Math.log10(low));
    const steps = high > 200 * low ? [1] : high > 8 * low ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const powers = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, i) => 10 ** (first + i));
    const all = powers.flatMap((power) => steps.map((step) => step * power));
    return { to: to_, ticks: all.filter((tick) => tick >= low && tick <= high).map((tick) => [to_(tick), short(tick)]) };
  }
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low - (low === 0 ? 0 : room), high + room];
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = power * [1, 2, 5, 10].find((factor) => (high - low) / (factor * power) <= 6);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  const to_ = (value) => from + ((to - from) * (value - low)) / (high - low);
  return { to: to_, ticks: ticks.map((tick) => [to_(tick), short(Number(tick.toPrecision(12)))]) };
}

function short(value) {
  const size = Math.abs(value);
  for (const [unit, scale] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e4]])
    if (size >= scale) return `${Number((value / (unit === "k" ? 1e3 : scale)).toPrecision(4))}${unit}`;
  return size > 0 && size < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
}

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function colourOf(row) {
  const column = COLUMNS[state.colour];
  if (!column) return variable("--series-0");
  const value = place(column, row);
  if (value === null) return variable("--quiet");
  if (!column.numbers) return variable(`--series-${value % MOST_COLOURS}`);
  const [low, high] = EXTENTS[state.colour];
  return `hsl(${230 - (190 * (value - low)) / (high - low || 1)} 75% 50%)`;
}

function draw() {
  const canvas = at("plot");
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11.5px system-ui, sans-serif";
  const [x, y] = [COLUMNS[state.x], COLUMNS[state.y]];
  const across = axis(state.x, state.xlog, MARGIN.left, width - MARGIN.right);
  const up = axis(state.y, state.ylog, height - MARGIN.bottom, MARGIN.top);
  pen.strokeStyle = variable("--line");
  pen.fillStyle = variable("--quiet");
  pen.textAlign = "right";
  for (const [pixel, label] of up.ticks) {
    pen.beginPath();
    pen.moveTo(MARGIN.left, pixel);
    pen.lineTo(width - MARGIN.right, pixel);
    pen.stroke();
    pen.fillText(label.length > 9 ? `${label.slice(0, 8)}…` : label, MARGIN.left - 6, pixel + 4);
  }
  pen.textAlign = "center";
  let free = -Infinity;
  for (const [pixel, label] of across.ticks) {
    const half = pen.measureText(label).width / 2;
    if (pixel - half < free) continue;
    pen.fillText(label, pixel, height - MARGIN.bottom + 16);
    free = pixel + half + 8;
  }
  pen.fillStyle = variable("--text");
  pen.fillText(x.name, (MARGIN.left + width - MARGIN.right) / 2, height - 6, width - MARGIN.left);
  pen.save();
  pen.translate(12, (MARGIN.top + height - MARGIN.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(y.name, 0, 0, height - MARGIN.bottom);
  pen.restore();
  points = shown.map((row) => [across.to(place(x, row)), up.to(place(y, row)), row]);
  const where = new Map(points.map(([px, py, row]) => [row, [px, py]]));
  pen.globalAlpha = points.length > 2000 ? 0.35 : 0.8;
  for (const [px, py, row] of points) {
    pen.fillStyle = colourOf(row);
    pen.beginPath();
    pen.arc(px, py, points.length > 500 ? 2.5 : 4, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = variable("--text");
  pen.lineWidth = 1.4;
  pen.beginPath();
  front.forEach((row, order) => pen[order ? "lineTo" : "moveTo"](...where.get(row)));
  pen.stroke();
  for (const row of front) ring(pen, where.get(row), 5.5);
  if (state.row !== null && where.has(state.row)) {
    pen.lineWidth = 2.5;
    ring(pen, where.get(state.row), 9);
  }
}

function ring(pen, [px, py], radius) {
  pen.beginPath();
  pen.arc(px, py, radius, 0, 7);
  pen.stroke();
}

function lines(row) {
  const named = COLUMNS.filter((column, index) => index === state.x || index === state.y || index === state.colour || column.axis);
  const texts = named.filter((column) => cell(column, row)).map((column) => `${column.name}: ${cell(column, row)}`);
  return texts.length > 14 ? [...texts.slice(0, 13), "…"] : texts;
}

function nearest(event) {
  const box = at("plot").getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  let found = null;
  let least = 24 ** 2;
  for (const point of points) {
    const apart = (point[0] - px) ** 2 + (point[1] - py) ** 2;
    if (apart < least) [found, least] = [point, apart];
  }
  return found;
}

function showTip(point) {
  const tip = at("tip");
  tip.hidden = !point;
  if (!point) return;
  tip.textContent = lines(point[2]).join("\n");
  const room = at("plot").clientWidth;
  tip.style.left = `${Math.max(0, Math.min(point[0] + 12, room - tip.offsetWidth - 4))}px`;
  tip.style.top = `${point[1] + 14}px`;
}

function choose(row) {
  state.row = row;
  draw();
  drawRow();
  drawFront();
  keep();
}

function drawRow() {
  at("row").hidden = state.row === null;
  if (state.row === null) return;
  const pairs = COLUMNS.filter((column) => cell(column, state.row)).map((column) =>
    el("div", {}, el("dt", {}, column.name), el("dd", {}, cell(column, state.row))),
  );
  at("row").querySelector("dl").replaceChildren(...pairs);
}

function drawFront() {
  const columns = [state.x, state.y, ...COLUMNS.keys()].filter(
    (index, order, all) => all.indexOf(index) === order && (order < 2 || COLUMNS[index].axis || index === state.colour),
  );
  const kind = (index) => (COLUMNS[index].numbers ? "number" : null);
  const head = el("tr", {}, ...columns.map((index) => el("th", { scope: "col", class: kind(index) }, COLUMNS[index].name)));
  const rows = front.slice(0, 300).map((row) =>
    el(
      "tr",
      { tabindex: "0", class: row === state.row ? "chosen" : null, onclick: () => choose(row), onkeydown: (event) => event.key === "Enter" && choose(row) },
      ...columns.map((index) => el("td", { class: kind(index) }, cell(COLUMNS[index], row))),
    ),
  );
  at("front").hidden = !front.length;
  at("front").querySelector("table").replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
}

function drawKey() {
  const column = COLUMNS[state.colour];
  const key = at("key");
  key.replaceChildren();
  if (!column) return;
  const item = (label, colour) => {
    const mark = el("i", { "aria-hidden": "true" });
    mark.style.setProperty("--mark", colour);
    key.append(el("li", {}, mark, label));
  };
  if (column.numbers) {
    const [low, high] = EXTENTS[state.colour];
    item(`${column.name} ${text(low)}`, "hsl(230 75% 50%)");
    item(text(high), "hsl(40 75% 50%)");
  } else column.words.slice(0, 24).forEach((word, code) => item(word, variable(`--series-${code % MOST_COLOURS}`)));
}

function keep() {
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`);
}

function update() {
  const [x, y] = [COLUMNS[state.x], COLUMNS[state.y]];
  shown = [];
  for (let row = 0; row < DATA.rows; row++) if (place(x, row) !== null && place(y, row) !== null && keeps(row)) shown.push(row);
  front = paretoFront(shown);
  at("count").textContent = `${shown.length.toLocaleString("en")} of ${DATA.rows.toLocaleString("en")} rows, ${front.length} on the Pareto front`;
  showTip(null);
  draw();
  drawKey();
  drawFront();
  drawRow();
  keep();
}

function slider(index) {
  const column = COLUMNS[index];
  const [low, high] = EXTENTS[index];
  const log = low > 0 && high > 100 * low;
  const value = (step) => (step === 0 ? low : step === STEPS ? high : log ? low * (high / low) ** (step / STEPS) : low + ((high - low) * step) / STEPS);
  const step = (number) => Math.round(STEPS * (log ? Math.log(number / low) / Math.log(high / low) : (number - low) / (high - low)));
  const output = el("output", {});
  const [least, most] = state.ranges[index] ?? [low, high];
  const ends = [step(least), step(most)].map((start, end) =>
    el("input", { type: "range", min: 0, max: STEPS, value: Math.max(0, Math.min(STEPS, start)), "aria-label": `${column.name}, ${end ? "most" : "least"}` }),
  );
  const say = (a, b) => (output.textContent = `${text(a)} to ${text(b)}`);
  say(least, most);
  const change = (end) => () => {
    if (Number(ends[0].value) > Number(ends[1].value)) ends[end ? 0 : 1].value = ends[end].value;
    const range = ends.map((input) => value(Number(input.value)));
    if (range[0] === low && range[1] === high) delete state.ranges[index];
    else state.ranges[index] = range;
    say(...range);
    update();
  };
  ends.forEach((input, end) => (input.oninput = change(end)));
  return el("div", { class: "filter" }, el("b", {}, column.name), output, ...ends);
}

function wordBoxes(index) {
  const column = COLUMNS[index];
  const boxes = column.words.map((word, code) => {
    const box = el("input", { type: "checkbox" });
    box.checked = !(state.hidden[index] ?? []).includes(code);
    box.onchange = () => {
      const codes = new Set(state.hidden[index] ?? []);
      codes[box.checked ? "delete" : "add"](code);
      if (codes.size) state.hidden[index] = [...codes];
      else delete state.hidden[index];
      update();
    };
    return el("label", {}, box, ` ${word}`);
  });
  return el("div", { class: "filter" }, el("b", {}, column.name), el("div", { class: "words" }, ...boxes));
}

function drawFilters() {
  at("sliders").replaceChildren(...state.filters.map((index) => (COLUMNS[index].numbers ? slider(index) : wordBoxes(index))));
  const others = COLUMNS.flatMap((column, index) => (canFilter(column) && !state.filters.includes(index) ? [index] : []));
  at("more").replaceChildren(el("option", { value: "" }, "another column"), ...others.map((index) => el("option", { value: index }, COLUMNS[index].name)));
}

function controls() {
  const options = () => COLUMNS.map((column, index) => el("option", { value: index }, column.name));
  for (const name of ["x", "y", "colour"]) {
    at(name).replaceChildren(...(name === "colour" ? [el("option", { value: -1 }, "none")] : []), ...options());
    at(name).value = state[name];
    at(name).onchange = () => {
      state[name] = Number(at(name).value);
      if (name !== "colour") {
        state[`${name}log`] = isLog(state[name]);
        state[`${name}less`] = COLUMNS[state[name]].less;
        controls();
      }
      update();
    };
  }
  for (const name of ["xlog", "ylog", "xless", "yless"]) {
    at(name).checked = state[name];
    at(name).onchange = () => {
      state[name] = at(name).checked;
      update();
    };
  }
}

function theme() {
  const choice = at("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = choice.value === "auto" ? (system.matches ? "dark" : "light") : choice.value;
    if (state) draw();
    if (state) drawKey();
  };
  choice.addEventListener("change", apply);
  system.addEventListener("change", apply);
  apply();
}

function begin(from) {
  state = from;
  controls();
  drawFilters();
  update();
}

function start() {
  theme();
  if (!at("plot")) return;
  const canvas = at("plot");
  canvas.onmousemove = (event) => showTip(nearest(event));
  canvas.onmouseleave = () => showTip(null);
  canvas.onclick = (event) => {
    const point = nearest(event);
    showTip(point);
    choose(point ? point[2] : null);
  };
  canvas.onkeydown = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key === "Escape") choose(null);
    if (!(event.key in steps) || !front.length) return;
    event.preventDefault();
    const next = (front.indexOf(state.row) + steps[event.key] + front.length) % front.length;
    choose(front[next]);
    showTip(points.find((point) => point[2] === state.row));
  };
  at("more").onchange = () => {
    if (at("more").value !== "") state.filters.push(Number(at("more").value));
    drawFilters();
    keep();
  };
  at("reset").onclick = () => begin({ ...state, ranges: {}, hidden: {} });
  addEventListener("resize", draw);
  addEventListener("hashchange", () => begin(stateOf(location.hash)));
  begin(stateOf(location.hash));
}

start();
