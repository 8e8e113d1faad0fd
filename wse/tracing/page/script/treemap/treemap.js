// Treemap of cycles: kinds of op (or layers), each divided by cause. A click on a group shows its parts.
const AREA_HEIGHT = 400;
const LINE = 15; // height of a line of text in pixels
const LETTER = 6.6;

class CycleMap {
  constructor(section) {
    this.phases = DATA.phases.filter((phase) => TRACES.some((trace) => trace.phases[phase]));
    this.phase = this.first = this.phases.includes("decode") ? "decode" : this.phases[0];
    this.by = "kind";
    this.path = [];
    this.crumbs = el("span", { class: "crumbs" });
    this.sides = TRACES.map((trace) => ({
      trace,
      area: el("div", { class: "area" }),
      say: el("p", { class: "say" }),
      table: el("details", {}),
    }));
    const setting = (name) => (value) => {
      this[name] = value;
      this.enter([]);
    };
    section.append(
      el(
        "div",
        { class: "controls" },
        pick(
          "Phase",
          this.phases.map((phase) => [phase, phase]),
          this.phase,
          setting("phase"),
          "work-phase",
        ),
        pick(
          "By",
          [
            ["kind", "kind of op"],
            ["layer", "layer"],
          ],
          this.by,
          setting("by"),
          "work-by",
        ),
        this.crumbs,
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
    keep(
      "phase",
      () => (this.phase === this.first ? null : this.phase),
      (value) => chooseOption("work-phase", value ?? this.first),
    );
    keep(
      "by",
      () => (this.by === "kind" ? null : this.by),
      (value) => chooseOption("work-by", value ?? "kind"),
    );
    keep(
      "in",
      () => (this.path.length ? this.path.join("|") : null),
      (value) => this.enter(value ? value.split("|") : [], false),
    );
    addEventListener("resize", () => this.draw());
    this.draw();
  }

  enter(path, moved = true) {
    this.path = path;
    this.draw();
    if (moved) remember("work");
  }

  draw() {
    hideTip();
    const all = this.sides.map(({ trace }) => cycleGroups(trace, this.phase, this.by, this.path));
    this.path = all.map(({ path }) => path).reduce((deepest, path) => (path.length > deepest.length ? path : deepest));
    this.drawCrumbs();
    const totals = all.map(({ groups }) => sum(groups.map((group) => group.value)));
    const means = this.sides.map(({ trace }, at) => totals[at] / (trace.phases[this.phase]?.passes ?? 1));
    this.sides.forEach((side, at) => {
      const found = all[at].path.length === this.path.length ? all[at] : { ...all[at], groups: [] };
      this.drawSide(side, found, totals[at], means[at] / Math.max(1, ...means));
    });
  }

  drawCrumbs() {
    const crumb = (text, path) => el("button", { type: "button", onclick: () => this.enter(path) }, text);
    this.crumbs.hidden = !this.path.length;
    this.crumbs.replaceChildren(
      crumb("← all", []),
      ...this.path.flatMap((name, at) => [
        " › ",
        at + 1 < this.path.length ? crumb(name, this.path.slice(0, at + 1)) : el("b", {}, name),
      ]),
    );
  }

  drawSide(side, { groups, level }, total, share) {
    const { trace } = side;
    const passes = trace.phases[this.phase]?.passes ?? 1;
    const width = Math.max(240, side.area.clientWidth),
      height = Math.max(1, AREA_HEIGHT * share); // so that equal areas of two traces are equal numbers of cycles
    const boxes = squarify(groups, { x: 0, y: 0, width, height });
    const cells = boxes.map((box, at) => this.group(trace, box, passes, at));
    const what = `${this.path.length ? `of ${this.path.join(", ")}, ` : ""}by ${LEVEL_NAMES[level]}`;
    const shares = causeShares(DATA.causes.map((_, index) => sum(groups.map((group) => group.cycles[index]))));
    side.say.textContent = `${this.phase}, cycles of a mean pass ${what}: ${whole(total / passes)} in all; ${shares}.`;
    const leave = level === "step" ? "" : ", Enter opens it";
    const picture = svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${AREA_HEIGHT}`,
        role: "group",
        "aria-label":
          `Areas: ${side.say.textContent} Arrow keys go from one to the next${leave}` +
          `${this.path.length ? ", Escape goes back" : ""}.`,
      },
      ...cells,
    );
    picture.addEventListener("keydown", (event) => this.key(event, cells));
    const held = side.area.contains(document.activeElement);
    side.area.replaceChildren(picture);
    if (held && cells.length) cells[0].focus();
    this.drawTable(side, groups, what, passes);
  }

  drawTable(side, groups, what, passes) {
    const rows = [...groups]
      .sort((a, b) => b.value - a.value)
      .map((group) => [
        group.name,
        whole(group.value / passes),
        cycleShare(side.trace, this.phase, group.value),
        ...group.cycles.map((cycles) => whole(cycles / passes)),
      ]);
    const open = side.table.open;
    side.table.replaceChildren(
      el("summary", {}, "The same as a table"),
      plainTable(
        `Cycles of a mean ${this.phase} pass ${what}; share: of the cycles of the phase`,
        ["", "cycles", "share", ...DATA.causes],
        rows,
        [1, 2, 3, 4, 5, 6, 7, 8],
      ),
    );
    side.table.open = open;
  }

  group(trace, box, passes, index) {
    const { item, x, y, width, height } = box;
    const share = cycleShare(trace, this.phase, item.value);
    const texts = tileTexts(item.name, share, whole(item.value / passes), width - 10, height - 8);
    const header = texts.length ? texts.length * LINE + 3 : 0;
    const parts = DATA.causes.map((cause, at) => ({ cause, value: item.cycles[at] }));
    const inside = squarify(parts, {
      x: x + 1,
      y: y + 1 + header,
      width: Math.max(0.5, width - 2),
      height: Math.max(0.5, height - 2 - header),
    });
    const lines = (cause) => [
      item.name,
      `${whole(item.value / passes)} cycles, ${share} of the phase`,
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
    return svg(
      "g",
      {
        class: this.path.length < 2 ? "group opens" : "group",
        tabindex: index ? "-1" : "0",
        role: this.path.length < 2 ? "button" : "img",
        "aria-label": lines("").join(", "),
        onclick: () => {
          if (this.path.length < 2) this.enter([...this.path, item.name]);
        },
      },
      svg("rect", {
        x: x + 0.5,
        y: y + 0.5,
        width: Math.max(0.5, width - 1),
        height: Math.max(0.5, height - 1),
        class: "frame",
      }),
      ...leaves,
      ...texts.map((text, at) =>
        svg("text", { x: x + 5, y: y + 13 + at * LINE, class: at ? "group-cycles" : "group-name" }, text),
      ),
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
    else if (event.key === "Escape") this.enter(this.path.slice(0, -1));
    else return;
    event.preventDefault();
  }
}

// Lines of text for a tile: name, percentage and cycles as far as they fit. Empty if no name fits.
function tileTexts(name, share, cycles, width, height) {
  const letters = Math.floor(width / LETTER);
  const fits = [
    [`${name} · ${share} · ${cycles} cycles`],
    [name, `${share} · ${cycles} cycles`],
    [name, `${share} · ${cycles}`],
    [name, share, cycles],
    [name, share],
    [`${name} ${share}`],
  ].find((texts) => texts.length * LINE < 0.7 * height && texts.every((text) => text.length <= letters));
  return fits ?? (letters >= 4 && height > 1.4 * LINE ? [clipped(name, width)] : []);
}

// A name, shortened to fit a width.
function clipped(text, width) {
  const most = Math.floor(width / LETTER);
  return text.length <= most ? text : `${text.slice(0, Math.max(1, most - 1))}…`;
}
