// The page of a serving simulation: charts of numbers over time, and tables.
const PANEL = { width: 1000, height: 240, left: 62, right: 14, top: 12, bottom: 34 };

// panel: {title, unit, time_s, series: [{name, values}]}
function overTime(panel) {
  const last = panel.time_s.at(-1),
    most = Math.max(1e-12, ...panel.series.flatMap((series) => series.values));
  const [left, right] = [PANEL.left, PANEL.width - PANEL.right];
  const across = linearScale(0, last, left, right, (time) => (time ? seconds(time) : "0"));
  const up = linearScale(0, most, PANEL.height - PANEL.bottom, PANEL.top);
  const drawing = chart(PANEL, panel.title, { across, up });
  panel.series.forEach((series, at) => {
    const points = series.values.map((value, index) => [across.place(panel.time_s[index]), up.place(value)]);
    drawing.append(curve(points, seriesClass(at)));
  });
  const cursor = svg("line", { class: "cursor", y1: PANEL.top, y2: PANEL.height - PANEL.bottom, visibility: "hidden" });
  drawing.append(cursor);
  drawing.addEventListener("mousemove", (event) => {
    const box = drawing.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * PANEL.width - left) / (right - left);
    const at = Math.round(Math.min(1, Math.max(0, part)) * (panel.time_s.length - 1));
    const x = across.place(panel.time_s[at]);
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, x);
    cursor.setAttribute("visibility", "visible");
    const texts = panel.series.map((series) => `${series.name}: ${whole(series.values[at])} ${panel.unit}`);
    showTip(event, [`after ${seconds(panel.time_s[at])}`, ...texts]);
  });
  drawing.addEventListener("mouseleave", () => {
    cursor.setAttribute("visibility", "hidden");
    hideTip();
  });
  return titled(null, panel.title, seriesKey(panel.series.map((series) => series.name)), el("figure", {}, drawing));
}

theme();
const tables = DATA.tables.map((table) => titled(null, table.title, sortable(table)));
document.getElementById("verdict").after(...DATA.panels.map(overTime), ...tables);
usable();
