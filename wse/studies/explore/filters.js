// Filters: two sliders for a column of numbers, and a check box per word for any other column.
const STEPS = 200;

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
