// Cycles as areas: layers (or kinds of op), each divided by cause. A group opens into what it is made of.
const AREA = { width: 960, height: 420 };

class CycleMap {
  constructor(section) {
    const phases = DATA.phases.filter((phase) => TRACES.some((trace) => trace.phases[phase]));
    this.phase = phases.includes("decode") ? "decode" : phases[0];
    this.by = "layer";
    this.open = null;
    this.back = el("button", { type: "button", onclick: () => this.enter(null) }, "← all");
    this.sides = TRACES.map((trace) => ({
      trace,
      area: el("div", { class: "area" }),
      say: el("p", { class: "say" }),
      table: el("details", {}),
    }));
    section.append(
      el(
        "div",
        { class: "controls" },
        pick(
          "Phase",
          phases.map((phase) => [phase, phase]),
          this.phase,
          (value) => {
            this.phase = value;
            this.enter(null);
          },
          "work-phase",
        ),
        pick(
          "By",
          [
            ["layer", "layer"],
            ["kind", "kind of op"],
          ],
          this.by,
          (value) => {
            this.by = value;
            this.enter(null);
          },
          "work-by",
        ),
        this.back,
      ),
      key(DATA.causes, "cause"),
      el(
        "div",
        { class: "pair" },
        ...this.sides.map((side) =>
          el(
            "figure",
            {},
            COMPARED ? el("figcaption", {}, sideName(side.trace)) : null,
            side.area,
            side.say,
            side.table,
          ),
        ),
      ),
    );
    this.draw();
  }

  enter(group) {
    this.open = group;
    this.draw();
  }

  label(trace, by, value) {
    if (by === "layer") return layerName(value);
    return value < 0 ? "no op" : trace.kinds[value];
  }

  groups(trace) {
    const other = this.by === "layer" ? "kind" : "layer";
    const code = DATA.phases.indexOf(this.phase);
    let work = trace.work.filter((row) => row.phase === code);
    const by = this.open === null ? this.by : other;
    if (this.open !== null) work = work.filter((row) => this.label(trace, this.by, row[this.by]) === this.open);
    const found = new Map();
    for (const row of work) {
      const name = this.label(trace, by, row[by]);
      const group =
        found.get(name) ?? found.set(name, { name, order: row[by], cycles: DATA.causes.map(() => 0) }).get(name);
      row.cycles.forEach((cycles, cause) => {
        group.cycles[cause] += cycles;
      });
    }
    return [...found.values()]
      .map((group) => ({ ...group, value: sum(group.cycles) }))
      .filter((group) => group.value > 0);
  }

  draw() {
    this.back.hidden = this.open === null;
    const all = this.sides.map((side) => this.groups(side.trace));
    const totals = all.map((groups) => sum(groups.map((group) => group.value)));
    const means = this.sides.map(({ trace }, at) => totals[at] / (trace.phases[this.phase]?.passes ?? 1));
    this.sides.forEach((side, at) => this.drawSide(side, all[at], totals[at], means[at] / Math.max(1, ...means)));
  }

  drawSide(side, groups, total, share) {
    const { trace } = side;
    const passes = trace.phases[this.phase]?.passes ?? 1;
    const height = AREA.height * share; // so that areas of two traces compare
    const boxes = squarify(groups, { x: 0, y: 0, width: AREA.width, height: Math.max(1, height) });
    const cells = boxes.map((box, at) => this.group(box, total, passes, at));
    const what =
      this.open === null
        ? `by ${this.by === "kind" ? "kind of op" : "layer"}`
        : `of ${this.open}, by ${this.by === "layer" ? "kind of op" : "layer"}`;
    const shares = causeShares(DATA.causes.map((_, index) => sum(groups.map((group) => group.cycles[index]))));
    side.say.textContent = `${this.phase}, cycles of a mean pass ${what}: ${whole(total / passes)} in all; ${shares}.`;
    const leave = this.open === null ? "Enter opens it" : "Escape goes back";
    const picture = svg(
      "svg",
      {
        viewBox: `0 0 ${AREA.width} ${AREA.height}`,
        role: "group",
        "aria-label": `Areas: ${side.say.textContent} Arrow keys go from one to the next, ${leave}.`,
      },
      ...cells,
    );
    picture.addEventListener("keydown", (event) => this.key(event, cells));
    const held = side.area.contains(document.activeElement);
    side.area.replaceChildren(picture);
    if (held && cells.length) cells[0].focus();
    const rows = groups
      .sort((a, b) => b.value - a.value)
      .map((group) => [
        group.name,
        whole(group.value / passes),
        percent(group.value, total),
        ...group.cycles.map((cycles) => whole(cycles / passes)),
      ]);
    const open = side.table.open;
    side.table.replaceChildren(
      el("summary", {}, "The same as a table"),
      plainTable(
        `Cycles of a mean ${this.phase} pass ${what}`,
        ["", "cycles", "share", ...DATA.causes],
        rows,
        [1, 2, 3, 4, 5, 6, 7, 8],
      ),
    );
    side.table.open = open;
  }

  group(box, total, passes, index) {
    const { item, x, y, width, height } = box;
    const header = height > 34 && width > 44 ? 16 : 0;
    const parts = DATA.causes.map((cause, at) => ({ cause, value: item.cycles[at] }));
    const inside = squarify(parts, {
      x: x + 1,
      y: y + 1 + header,
      width: Math.max(0.5, width - 2),
      height: Math.max(0.5, height - 2 - header),
    });
    const lines = (cause) => [
      item.name,
      `${whole(item.value / passes)} cycles, ${percent(item.value, total)}`,
      ...parts
        .filter((part) => part.value)
        .map((part) => {
          const text = `${part.cause}: ${whole(part.value / passes)}, ${percent(part.value, item.value)}`;
          return part.cause === cause ? `▸ ${text}` : text;
        }),
    ];
    const leaves = inside.map((leaf) => {
      const rect = svg("rect", {
        x: leaf.x,
        y: leaf.y,
        width: leaf.width,
        height: leaf.height,
        class: "leaf",
        onpointermove: (event) => showTip(event, lines(leaf.item.cause)),
        onpointerleave: hideTip,
      });
      rect.style.fill = `var(--cause-${leaf.item.cause})`;
      return rect;
    });
    const text = header
      ? svg("text", { x: x + 5, y: y + 13, class: "group-name" }, clipped(item.name, width - 8))
      : null;
    const enter = () => {
      if (this.open === null) this.enter(item.name);
    };
    return svg(
      "g",
      {
        class: "group",
        tabindex: index ? "-1" : "0",
        role: "button",
        "aria-label": lines("").join(", "),
        onclick: enter,
      },
      svg("rect", {
        x: x + 0.5,
        y: y + 0.5,
        width: Math.max(0.5, width - 1),
        height: Math.max(0.5, height - 1),
        class: "frame",
      }),
      ...leaves,
      ...(text ? [text] : []),
    );
  }

  key(event, cells) {
    const at = cells.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = cells[(at + step + cells.length) % cells.length];
      cells.forEach((cell) => cell.setAttribute("tabindex", cell === next ? "0" : "-1"));
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") cells[at]?.dispatchEvent(new MouseEvent("click"));
    else if (event.key === "Escape") this.enter(null);
    else return;
    event.preventDefault();
  }
}

// As much of a name as fits a width at about 6.5 pixels a letter.
function clipped(text, width) {
  const most = Math.floor(width / 6.5);
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}
