// The page of a comparison: tables that sort, and charts that show the numbers of their points.
const PANEL = { width: 420, height: 260, left: 62, right: 14, top: 12, bottom: 34 };
const CURVE = { width: 560, height: 400, left: 62, right: 14, top: 12, bottom: 44 };

const colourOfSeries = (name) => (DATA.series.includes(name) ? seriesClass(DATA.series.indexOf(name)) : "unnamed");

function across(box) {
  return [box.left, box.width - box.right];
}

function upward(box) {
  return [box.height - box.bottom, box.top];
}

function linksOf(panel) {
  return [...new Set(panel.points.map((point) => point.link).filter(Boolean))];
}

// panel: {title, points: [{wafers, value, series, link, lines}]}; a curve for each series and link
function linePanel(panel) {
  const counts = [...new Set(panel.points.map((point) => point.wafers))].sort((a, b) => a - b);
  const wafers = bandScale(counts.map((count) => several(count, "wafer")), ...across(PANEL));
  const up = scaleOfValues(panel.points.map((point) => point.value), ...upward(PANEL));
  const drawing = chart(PANEL, panel.title, { across: wafers, up });
  const placed = (point) => [wafers.place(counts.indexOf(point.wafers)), up.place(point.value)];
  const links = linksOf(panel);
  for (const name of new Set(panel.points.map((point) => point.series)))
    for (const link of links.length ? links : [""]) {
      const line = panel.points
        .filter((point) => point.series === name && (point.link === link || !point.link))
        .sort((a, b) => a.wafers - b.wafers);
      const other = link !== (links[0] ?? "") ? " other" : "";
      if (line.length) drawing.append(curve(line.map(placed), colourOfSeries(name) + other));
    }
  for (const one of panel.points)
    drawing.append(point(placed(one), one.link && one.link !== links[0] ? 3 : 5, colourOfSeries(one.series), one.lines));
  return el("figure", {}, el("figcaption", {}, panel.title), drawing);
}

// panel: {title, across, lines: [{series, kind, points: [{x, y, tier, lines}]}], public: [{x, y, lines}]}
function curvePanel(panel) {
  const points = [...panel.lines.flatMap((line) => line.points), ...panel.public];
  const log = (values, ends) => logScale(Math.min(...values) / 1.25, Math.max(...values) * 1.25, ...ends);
  const speed = log(points.map((point) => point.x), across(CURVE));
  const up = log(points.map((point) => point.y).filter((value) => value !== null), upward(CURVE));
  const drawing = chart(CURVE, panel.title, { across: speed, up, title: panel.across });
  const placed = (point) => [speed.place(point.x), up.place(point.y)];
  const named = (line) => DATA.series.includes(line.series);
  for (const line of [...panel.lines].sort((a, b) => named(a) - named(b))) {
    const colour = colourOfSeries(line.series);
    drawing.append(curve(line.points.map(placed), `${colour}${line.kind === "gpu" ? " other" : ""}`));
    for (const one of line.points) {
      const [cx, cy] = placed(one);
      if (one.tier && named(line)) drawing.append(svg("circle", { class: `ring ${colour} ${one.tier}`, cx, cy, r: 9 }));
      drawing.append(point([cx, cy], named(line) ? 4 : 2, colour, one.lines));
    }
  }
  for (const one of panel.public) {
    const x = speed.place(one.x);
    const shape = one.y === null ? `M${x - 2} ${CURVE.top} h4 v12 h-4 z` : `M${x} ${up.place(one.y) - 7} l7 7 l-7 7 l-7 -7 z`;
    drawing.append(withTip(svg("path", { class: "public", d: shape }), one.lines));
  }
  return el("figure", {}, el("figcaption", {}, panel.title), drawing);
}

function causesOf(stacks) {
  const tell = (stack, cause, all) => {
    const cycles = stack.parts[cause];
    return [`${stack.name}: ${cause}`, `${whole(cycles)} cycles a token`, percent(cycles, all)];
  };
  const text = (cycles) => `${short(cycles)} cycles`;
  return stackedBars(stacks, DATA.causes, "cause", "Cycles by cause", { tell, text });
}

function charts() {
  const made = [];
  if (DATA.curves.length) {
    const curves = el("div", { class: "panels curves" }, ...DATA.curves.map(curvePanel));
    made.push(titled("curves", DATA.curves_title, seriesKey(DATA.series), curves, el("p", { class: "note" }, DATA.curves_note)));
  }
  if (DATA.panels.length) {
    const panels = el("div", { class: "panels" }, ...DATA.panels.map(linePanel));
    const [first, ...others] = linksOf(DATA.panels[0]);
    const dashed = others.length ? `Lines are over links of ${first}, dashed ones over ${others.join(", ")}.` : "";
    made.push(titled("speed", "Over the number of wafers", seriesKey(DATA.series), panels, el("p", { class: "note" }, dashed)));
  }
  if (DATA.stacks.length)
    made.push(titled("causes", "What takes the time of one user's token", key(DATA.causes, "cause"), causesOf(DATA.stacks)));
  return made;
}

theme();
const tables = DATA.tables.map((table, at) => titled(`table-${at}`, table.title, sortable(table)));
document.getElementById("verdict").after(...tables.slice(0, 1), ...charts(), ...tables.slice(1));
document.querySelectorAll("main section").forEach((part, at) => {
  part.id ||= `section-${at}`;
  document.querySelector("nav").append(el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
usable();
