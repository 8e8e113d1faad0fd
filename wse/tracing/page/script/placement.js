// Placement of the stages: a small picture of each wafer with their rectangles, and a table.
const THUMBS = [
  [4, 150],
  [16, 100],
  [Infinity, 56],
]; // [maximum number of wafers, pixels per picture of a wafer]

function placementOf(trace, choose) {
  const scale = THUMBS.find(([most]) => trace.planes.length <= most)[1] / Math.max(trace.rows, trace.cols);
  const wafers = Array.from({ length: trace.planes.length }, (_, wafer) => thumbnail(trace, wafer, scale, choose));
  const rows = trace.stages.map((stage, at) => {
    return [
      String(at),
      String(stage.wafer),
      stageLayers(stage),
      `${stage.row}, ${stage.col}`,
      `${stage.rows}×${stage.cols}`,
      whole(stage.rows * stage.cols),
      percent(stage.used_fraction, 1),
      ...stage.stage_bytes.map(whole),
    ];
  });
  const header = [
    "stage",
    "wafer",
    "layers",
    "from row, column",
    "size",
    "PEs",
    "SRAM in use",
    ...DATA.uses.map((use) => `${use}, B`),
  ];
  return el(
    "div",
    {},
    COMPARED ? el("h3", {}, sideName(trace)) : null,
    el("div", { class: "thumbs" }, ...wafers),
    el(
      "details",
      { open: rows.length <= 8 },
      el("summary", {}, several(rows.length, "stage")),
      plainTable("Stages, SRAM of the fullest PE of each", header, rows, [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    ),
  );
}

function stageLayers(stage) {
  if (stage.first_layer < 0) return "none";
  return stage.first_layer === stage.last_layer
    ? String(stage.first_layer)
    : `${stage.first_layer}–${stage.last_layer}`;
}

function thumbnail(trace, wafer, scale, choose) {
  const mine = trace.stages.map((stage, at) => ({ ...stage, at })).filter((stage) => stage.wafer === wafer);
  const width = trace.cols * scale,
    height = trace.rows * scale;
  const shapes = mine.flatMap((stage) => {
    const box = { x: stage.col * scale, y: stage.row * scale, width: stage.cols * scale, height: stage.rows * scale };
    const place = `${stage.rows}×${stage.cols} PEs from row ${stage.row}, column ${stage.col}`;
    const text = `${stageName(trace, stage.at)}: ${place}`;
    const rect = svg("rect", {
      ...box,
      class: `stage shade-${stage.at % 6}`,
      onpointermove: (event) => showTip(event, [text]),
      onpointerleave: hideTip,
    });
    const label =
      box.width > 16 && box.height > 12
        ? svg(
            "text",
            { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, class: "label", "text-anchor": "middle" },
            String(stage.at),
          )
        : null;
    return [rect, label];
  });
  const used = sum(mine.map((stage) => stage.rows * stage.cols));
  const share = percent(used, trace.rows * trace.cols);
  const named = `wafer ${wafer}: ${several(mine.length, "stage")}, ${share} of its PEs`;
  return el(
    "button",
    { type: "button", class: "thumb", "aria-label": `Show ${named}`, onclick: () => choose(wafer) },
    svg(
      "svg",
      { viewBox: `-1 -1 ${width + 2} ${height + 2}`, width: width + 2, height: height + 2, "aria-hidden": "true" },
      svg("rect", { x: 0, y: 0, width, height, class: "mesh" }),
      ...shapes.filter((shape) => shape),
    ),
    el("span", {}, trace.planes.length > 16 ? `wafer ${wafer}` : named),
  );
}
