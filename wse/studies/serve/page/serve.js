// The page of a simulation of serving: levels over time, and tables. All texts become text nodes.
const DATA = JSON.parse(document.getElementById("data").textContent);
const PANEL = { width: 1000, height: 240, left: 62, right: 14, top: 12, bottom: 30 };

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

// 0 and multiples of 1, 2 or 5 times a power of ten, at most six up to a number.
function multiples(most) {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  const step = power * [1, 2, 5, 10].find((factor) => most / (factor * power) <= 6);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

// panel: {title, unit, time_s, series: [{name, values}]}
function overTime(panel) {
  const last = panel.time_s[panel.time_s.length - 1],
    most = Math.max(1e-12, ...panel.series.flatMap((series) => series.values));
  const across = (time) => PANEL.left + ((PANEL.width - PANEL.left - PANEL.right) * time) / last;
  const up = (value) => PANEL.height - PANEL.bottom - ((PANEL.height - PANEL.top - PANEL.bottom) * value) / most;
  const drawing = svg("svg", { viewBox: `0 0 ${PANEL.width} ${PANEL.height}`, role: "img", "aria-label": panel.title });
  for (const tick of multiples(most))
    drawing.append(
      svg("line", { class: "axis", x1: PANEL.left, x2: PANEL.width - PANEL.right, y1: up(tick), y2: up(tick) }),
      svg("text", { class: "tick", x: PANEL.left - 6, y: up(tick) + 4, "text-anchor": "end" }, short(tick)),
    );
  for (const tick of multiples(last))
    drawing.append(
      svg("text", { class: "tick", x: across(tick), y: PANEL.height - 10, "text-anchor": "middle" }, tick ? seconds(tick) : "0"),
    );
  panel.series.forEach((series, at) => {
    const path = series.values.map((value, point) => `${point ? "L" : "M"}${across(panel.time_s[point])} ${up(value)}`);
    drawing.append(svg("path", { class: `curve series-${at}`, d: path.join(" ") }));
  });
  const cursor = svg("line", { class: "cursor", y1: PANEL.top, y2: PANEL.height - PANEL.bottom, visibility: "hidden" });
  drawing.append(cursor);
  drawing.addEventListener("mousemove", (event) => {
    const box = drawing.getBoundingClientRect();
    const time = (((event.clientX - box.left) / box.width) * PANEL.width - PANEL.left) / (PANEL.width - PANEL.left - PANEL.right);
    const at = Math.round(Math.min(1, Math.max(0, time)) * (panel.time_s.length - 1));
    const x = across(panel.time_s[at]);
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, x);
    cursor.setAttribute("visibility", "visible");
    const texts = panel.series.map((series) => `${series.name}: ${whole(series.values[at])} ${panel.unit}`);
    showTip(event, [`after ${seconds(panel.time_s[at])}`, ...texts]);
  });
  drawing.addEventListener("mouseleave", () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  });
  const names = el("ul", { class: "key" });
  panel.series.forEach((series, at) =>
    names.append(el("li", {}, el("i", { class: `series-${at}`, "aria-hidden": "true" }), series.name)),
  );
  return el("section", {}, el("h2", {}, panel.title), names, el("figure", {}, drawing));
}

function start() {
  theme();
  const tables = DATA.tables.map((table) =>
    el("section", {}, el("h2", {}, table.title), plainTable(table.note, table.header, table.rows, table.numeric)),
  );
  document.getElementById("verdict").after(...DATA.panels.map(overTime), ...tables);
  document.documentElement.dataset.usable = performance.now().toFixed(1);
}

start();
