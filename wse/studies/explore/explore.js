// The page that plots any two columns of a table, with filters and the Pareto front.
const MAX_TICKS = 12;
const MARGIN = { left: 64, right: 14, top: 12, bottom: 40 };
const at = (id) => document.getElementById(id);

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

// The Pareto front: rows for which no other row is better in one column and at least as good in the other.
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
  if (!column.numbers) return bandScale(column.words, from, to, MAX_TICKS);
  const values = shown.map((row) => column.numbers[row]);
  let low = values.reduce((a, b) => Math.min(a, b), Infinity);
  let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!values.length) [low, high] = EXTENTS[index];
  if (log && low > 0) return logScale(low / 1.15, high * 1.15, from, to);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return linearScale(low - (low === 0 ? 0 : room), high + room, from, to);
}

function colourOfRow(row) {
  const column = COLUMNS[state.colour];
  if (!column) return colourOf("series-0");
  const value = place(column, row);
  if (value === null) return colourOf("quiet");
  if (!column.numbers) return colourOf(seriesClass(value));
  const [low, high] = EXTENTS[state.colour];
  return `hsl(${230 - (190 * (value - low)) / (high - low || 1)} 75% 50%)`;
}

function draw() {
  const { context: pen, width, height } = sized(at("plot"));
  const box = { width, height, ...MARGIN };
  const across = axis(state.x, state.xlog, box.left, width - box.right);
  const up = axis(state.y, state.ylog, height - box.bottom, box.top);
  paintFrame(pen, box, { across, up, titles: { across: COLUMNS[state.x].name, up: COLUMNS[state.y].name } });
  points = shown.map((row) => [across.place(place(COLUMNS[state.x], row)), up.place(place(COLUMNS[state.y], row)), row]);
  const where = new Map(points.map(([px, py, row]) => [row, [px, py]]));
  pen.globalAlpha = points.length > 2000 ? 0.35 : 0.8;
  for (const [px, py, row] of points) {
    pen.fillStyle = colourOfRow(row);
    pen.beginPath();
    pen.arc(px, py, points.length > 500 ? 2.5 : 4, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = colourOf("text");
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

function showPoint(found) {
  if (!found) return hideTip();
  const box = at("plot").getBoundingClientRect();
  showTip({ currentTarget: at("plot"), clientX: box.left + found[0], clientY: box.top + found[1] }, lines(found[2]));
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
  } else column.words.slice(0, 24).forEach((word, code) => item(word, colourOf(seriesClass(code))));
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
  hideTip();
  draw();
  drawKey();
  drawFront();
  drawRow();
  keep();
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

function begin(from) {
  state = from;
  controls();
  drawFilters();
  update();
}

function start() {
  theme();
  if (!at("plot")) return;
  onRedraw(() => {
    draw();
    drawKey();
  });
  const canvas = at("plot");
  canvas.onmousemove = (event) => showPoint(nearest(event));
  canvas.onmouseleave = hideTip;
  canvas.onclick = (event) => {
    const found = nearest(event);
    showPoint(found);
    choose(found ? found[2] : null);
  };
  canvas.onkeydown = (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key === "Escape") choose(null);
    if (!(event.key in steps) || !front.length) return;
    event.preventDefault();
    const next = (front.indexOf(state.row) + steps[event.key] + front.length) % front.length;
    choose(front[next]);
    showPoint(points.find((found) => found[2] === state.row));
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
