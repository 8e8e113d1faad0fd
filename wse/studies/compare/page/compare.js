// The page of a comparison: tables that sort, drawings that tell their numbers. All texts become text nodes.
const DATA = JSON.parse(document.getElementById("data").textContent);
const PANEL = { width: 420, height: 260, left: 62, right: 14, top: 12, bottom: 34 };
const CURVE = { width: 560, height: 400, left: 62, right: 14, top: 12, bottom: 44 };
const STACK = { width: 900, row: 26, left: 170, right: 90 };
const WIDE = 20; // the largest over the smallest value from which on an axis is logarithmic

function theme() {
  const choice = document.getElementById("theme"),
    system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme =
      choice.value === "auto" ? (system.matches ? "dark" : "light") : choice.value;
  };
  choice.addEventListener("change", apply);
  system.addEventListener("change", apply);
  apply();
}

function withTip(node, lines) {
  return fill(
    node,
    {
      tabindex: "0",
      role: "img",
      "aria-label": lines.join(", "),
      onmousemove: (event) => showTip(event, lines),
      onmouseleave: hideTip,
      onfocus: () => {
        const box = node.getBoundingClientRect();
        showTip({ clientX: box.right, clientY: box.bottom }, lines);
      },
      onblur: hideTip,
    },
    [],
  );
}

// table: {title, note, columns: [{title, doc, numeric, wraps}], rows: [[{text, value, best}]]}
function sortable(table) {
  const state = { at: -1, down: true };
  const body = el("tbody");
  const heads = table.columns.map((column, at) =>
    el(
      "th",
      { scope: "col", class: column.numeric ? "number" : "name", title: column.doc || null },
      el("button", { type: "button", onclick: () => sort(at) }, column.title),
    ),
  );
  const kinds = table.columns.map((column) => (column.numeric ? "number" : `name${column.wraps ? " wraps" : ""}`));
  const draw = () => {
    const rows = [...table.rows];
    if (state.at >= 0) rows.sort((a, b) => order(a[state.at].value, b[state.at].value) * (state.down ? -1 : 1));
    heads.forEach((head, at) =>
      head.setAttribute("aria-sort", at !== state.at ? "none" : state.down ? "descending" : "ascending"),
    );
    body.replaceChildren(
      ...rows.map((row) =>
        el(
          "tr",
          {},
          ...row.map((cell, at) =>
            el("td", { class: `${kinds[at]}${cell.best ? " best" : ""}` }, cell.text),
          ),
        ),
      ),
    );
  };
  const sort = (at) => {
    state.down = state.at === at ? !state.down : Boolean(table.columns[at].numeric);
    state.at = at;
    draw();
  };
  draw();
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
    el("table", {}, el("caption", {}, table.note), el("thead", {}, el("tr", {}, ...heads)), body),
  );
}

function order(a, b) {
  if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function scale(values) {
  const most = Math.max(...values),
    least = Math.min(...values),
    room = PANEL.height - PANEL.top - PANEL.bottom;
  const log = least > 0 && most > WIDE * least;
  const low = log ? Math.log(least / 1.3) : 0,
    high = log ? Math.log(most * 1.3) : most * 1.08 || 1;
  const place = (value) => PANEL.height - PANEL.bottom - (room * ((log ? Math.log(value) : value) - low)) / (high - low);
  return { place, ticks: log ? powers(Math.exp(low), Math.exp(high)) : multiples(high) };
}

// 0 and multiples of 1, 2 or 5 times a power of ten, at most six up to a number.
function multiples(most) {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  const step = power * [1, 2, 5, 10].find((factor) => most / (factor * power) <= 6);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

// Powers of ten between two numbers, and three times those.
function powers(low, high) {
  const first = Math.floor(Math.log10(low)),
    last = Math.ceil(Math.log10(high));
  const all = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
  return all.flatMap((power) => [power, 3 * power]).filter((tick) => tick >= low && tick <= high);
}

// panel: {title, points: [{wafers, value, series, link, lines}]}; a curve for each series and link
function linePanel(panel) {
  const counts = [...new Set(panel.points.map((point) => point.wafers))].sort((a, b) => a - b);
  const { place, ticks } = scale(panel.points.map((point) => point.value));
  const across = (wafers) =>
    PANEL.left +
    ((PANEL.width - PANEL.left - PANEL.right) * (counts.indexOf(wafers) + 0.5)) / Math.max(1, counts.length);
  const drawing = svg("svg", { viewBox: `0 0 ${PANEL.width} ${PANEL.height}`, role: "group", "aria-label": panel.title });
  for (const tick of ticks) {
    const y = place(tick);
    drawing.append(
      svg("line", { class: "axis", x1: PANEL.left, x2: PANEL.width - PANEL.right, y1: y, y2: y }),
      svg("text", { class: "tick", x: PANEL.left - 6, y: y + 4, "text-anchor": "end" }, short(tick)),
    );
  }
  for (const wafers of counts)
    drawing.append(
      svg("text", { class: "tick", x: across(wafers), y: PANEL.height - 14, "text-anchor": "middle" }, several(wafers, "wafer")),
    );
  const links = [...new Set(panel.points.map((point) => point.link).filter(Boolean))];
  const series = [...new Set(panel.points.map((point) => point.series))];
  for (const name of series)
    for (const link of links.length ? links : [""]) {
      const line = panel.points
        .filter((point) => point.series === name && (point.link === link || !point.link))
        .sort((a, b) => a.wafers - b.wafers);
      const path = line.map((point, at) => `${at ? "L" : "M"}${across(point.wafers)} ${place(point.value)}`).join(" ");
      const other = link !== (links[0] ?? "") ? " other" : "";
      if (path) drawing.append(svg("path", { class: `curve series-${DATA.series.indexOf(name) % 6}${other}`, d: path }));
    }
  for (const point of panel.points)
    drawing.append(
      withTip(
        svg("circle", {
          class: `point series-${DATA.series.indexOf(point.series) % 6}`,
          cx: across(point.wafers),
          cy: place(point.value),
          r: point.link && point.link !== links[0] ? 3 : 5,
        }),
        point.lines,
      ),
    );
  return el("figure", {}, el("figcaption", {}, panel.title), drawing);
}

// A logarithmic axis of some pixels for values above 0: their place, and ticks at 1, 2 and 5 times powers of ten.
function logAxis(values, from, to) {
  const low = Math.min(...values) / 1.25,
    high = Math.max(...values) * 1.25;
  const place = (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
  const first = Math.floor(Math.log10(low));
  const all = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, at) => 10 ** (first + at));
  const steps = high > 300 * low ? [1] : [1, 2, 5];
  const ticks = all.flatMap((power) => steps.map((step) => step * power)).filter((tick) => tick >= low && tick <= high);
  return { place, ticks };
}

// curve: {title, across, lines: [{series, kind, points: [{x, y, tier, lines}]}], public: [{x, y, lines}]}
function curvePanel(curve) {
  const points = [...curve.lines.flatMap((line) => line.points), ...curve.public];
  const bottom = CURVE.height - CURVE.bottom;
  const across = logAxis(points.map((point) => point.x), CURVE.left, CURVE.width - CURVE.right);
  const up = logAxis(points.map((point) => point.y).filter((value) => value !== null), bottom, CURVE.top);
  const drawing = svg("svg", { viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, role: "group", "aria-label": curve.title });
  for (const tick of up.ticks) {
    const y = up.place(tick);
    drawing.append(
      svg("line", { class: "axis", x1: CURVE.left, x2: CURVE.width - CURVE.right, y1: y, y2: y }),
      svg("text", { class: "tick", x: CURVE.left - 6, y: y + 4, "text-anchor": "end" }, short(tick)),
    );
  }
  for (const tick of across.ticks)
    drawing.append(svg("text", { class: "tick", x: across.place(tick), y: bottom + 18, "text-anchor": "middle" }, short(tick)));
  drawing.append(
    svg("text", { class: "tick", x: (CURVE.left + CURVE.width) / 2, y: CURVE.height - 6, "text-anchor": "middle" }, curve.across),
  );
  const named = (line) => DATA.series.includes(line.series);
  for (const line of [...curve.lines].sort((a, b) => named(a) - named(b))) {
    const colour = named(line) ? `series-${DATA.series.indexOf(line.series) % 6}` : "unnamed";
    const path = line.points.map((point, at) => `${at ? "L" : "M"}${across.place(point.x)} ${up.place(point.y)}`).join(" ");
    drawing.append(svg("path", { class: `curve ${colour}${line.kind === "gpu" ? " other" : ""}`, d: path }));
    for (const point of line.points) {
      const [cx, cy] = [across.place(point.x), up.place(point.y)];
      if (point.tier && named(line)) drawing.append(svg("circle", { class: `ring ${colour} ${point.tier}`, cx, cy, r: 9 }));
      drawing.append(withTip(svg("circle", { class: `point ${colour}`, cx, cy, r: named(line) ? 4 : 2 }), point.lines));
    }
  }
  for (const point of curve.public) {
    const x = across.place(point.x);
    const shape =
      point.y === null ? `M${x - 2} ${CURVE.top} h4 v12 h-4 z` : `M${x} ${up.place(point.y) - 7} l7 7 l-7 7 l-7 -7 z`;
    drawing.append(withTip(svg("path", { class: "public", d: shape }), point.lines));
  }
  return el("figure", {}, el("figcaption", {}, curve.title), drawing);
}

// stacks: [{name, cycles: {cause: cycles}}]
function stackedBars(stacks) {
  const height = STACK.row * stacks.length + 8;
  const most = Math.max(...stacks.map((stack) => total(stack.cycles)));
  const drawing = svg("svg", { viewBox: `0 0 ${STACK.width} ${height}`, role: "group", "aria-label": "Cycles by cause" });
  stacks.forEach((stack, row) => {
    const all = total(stack.cycles),
      y = row * STACK.row + 4;
    let x = STACK.left;
    drawing.append(svg("text", { class: "tick", x: STACK.left - 8, y: y + 14, "text-anchor": "end" }, stack.name));
    for (const cause of DATA.causes) {
      const width = ((STACK.width - STACK.left - STACK.right) * (stack.cycles[cause] ?? 0)) / most;
      if (!(width > 0)) continue;
      const bar = svg("rect", { class: "part", x, y, width, height: STACK.row - 8 });
      bar.style.fill = `var(--cause-${cause})`;
      const cycles = stack.cycles[cause];
      drawing.append(withTip(bar, [`${stack.name}: ${cause}`, `${whole(cycles)} cycles a token`, percent(cycles, all)]));
      x += width;
    }
    drawing.append(svg("text", { class: "tick", x: x + 6, y: y + 14 }, `${short(all)} cycles`));
  });
  return drawing;
}

function total(cycles) {
  return Object.values(cycles).reduce((sum, value) => sum + value, 0);
}

function section(id, heading, ...children) {
  return el("section", { id }, el("h2", {}, heading), ...children);
}

function start() {
  theme();
  const made = DATA.tables.map((table, at) => section(`table-${at}`, table.title, sortable(table)));
  const drawings = [];
  const names = el("ul", { class: "key" });
  for (const name of DATA.series)
    names.append(el("li", {}, el("i", { class: `series-${DATA.series.indexOf(name) % 6}`, "aria-hidden": "true" }), name));
  if (DATA.curves.length) {
    const curves = el("div", { class: "panels curves" }, ...DATA.curves.map(curvePanel));
    drawings.push(section("curves", DATA.curves_title, names, curves, el("p", { class: "note" }, DATA.curves_note)));
  }
  if (DATA.panels.length) {
    const panels = el("div", { class: "panels" }, ...DATA.panels.map(linePanel));
    const links = [...new Set(DATA.panels[0].points.map((point) => point.link).filter(Boolean))];
    const dashed = links.length > 1 ? `Lines are over links of ${links[0]}, dashed ones over ${links.slice(1).join(", ")}.` : "";
    drawings.push(section("speed", "Over the number of wafers", names, panels, el("p", { class: "note" }, dashed)));
  }
  if (DATA.stacks.length) {
    const bars = el("div", { class: "stacks" }, stackedBars(DATA.stacks));
    drawings.push(section("causes", "What takes the time of one user's token", key(DATA.causes, "cause"), bars));
  }
  document.getElementById("verdict").after(...made.slice(0, 1), ...drawings, ...made.slice(1));
  const nav = document.querySelector("nav");
  document.querySelectorAll("main section").forEach((part, at) => {
    part.id ||= `section-${at}`;
    nav.append(el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  document.documentElement.dataset.usable = performance.now().toFixed(1);
}

start();
