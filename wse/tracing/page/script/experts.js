// Tokens of each expert as a shaded grid with a row for each layer, and the experts with the most and the
// fewest tokens in words.
function experts(section) {
  const held = TRACES.filter((trace) => trace.experts.length);
  if (!held.length) return;
  section.hidden = false;
  document.querySelector('nav a[href="#experts"]').hidden = false;
  for (const trace of held) {
    const most = Math.max(1, ...trace.experts.flatMap((layer) => layer.tokens));
    const wide = Math.max(...trace.experts.map((layer) => layer.tokens.length));
    const cell = Math.max(3, Math.min(24, 900 / wide)),
      tall = Math.min(16, Math.max(6, cell));
    const canvas = el("canvas", { class: "experts", role: "img" });
    canvas.style.width = `${cell * wide}px`;
    canvas.style.height = `${tall * trace.experts.length}px`;
    const totals = trace.experts.map((layer) => sum(layer.tokens));
    const uneven = trace.experts.map((layer, at) =>
      totals[at] ? (Math.max(...layer.tokens) * layer.tokens.length) / totals[at] : 0,
    );
    const worst = uneven.indexOf(Math.max(...uneven));
    const text =
      `Tokens by expert: at most ${whole(most)}. In layer ${trace.experts[worst].layer} ` +
      `the fullest expert has ${significant(uneven[worst])} times its even share.`;
    canvas.setAttribute("aria-label", text);
    const at = (event) => [Math.floor(event.offsetY / tall), Math.floor(event.offsetX / cell)];
    canvas.addEventListener("pointermove", (event) => {
      const [row, expert] = at(event),
        layer = trace.experts[row];
      if (layer && expert < layer.tokens.length)
        showTip(event, [
          `layer ${layer.layer}, expert ${expert}`,
          `${whole(layer.tokens[expert])} tokens, ${percent(layer.tokens[expert], totals[row])} of the layer's`,
        ]);
    });
    canvas.addEventListener("pointerleave", hideTip);
    onRedraw(() => drawExperts(canvas, trace, most, cell, tall));
    const rows = trace.experts.map((layer, index) => [
      String(layer.layer),
      whole(totals[index]),
      whole(Math.max(...layer.tokens)),
      whole(Math.min(...layer.tokens)),
      significant(uneven[index]),
    ]);
    section.append(
      COMPARED ? el("h3", {}, sideName(trace)) : "",
      el("div", { class: "scroll" }, canvas),
      el("p", { class: "say" }, text),
      el(
        "details",
        {},
        el("summary", {}, "The same as a table"),
        plainTable(
          "Tokens by layer of experts",
          ["layer", "tokens", "fullest", "emptiest", "fullest over even"],
          rows,
          [0, 1, 2, 3, 4],
        ),
      ),
    );
    drawExperts(canvas, trace, most, cell, tall);
  }
}

function drawExperts(canvas, trace, most, cell, tall) {
  const { context } = sized(canvas);
  trace.experts.forEach((layer, row) =>
    layer.tokens.forEach((tokens, expert) => {
      const colour = PALETTE[Math.round((255 * tokens) / most)];
      context.fillStyle = `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
      context.fillRect(expert * cell, row * tall, cell - (cell > 5 ? 1 : 0), tall - 1);
    }),
  );
}
