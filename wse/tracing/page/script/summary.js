// The summary: main results, what limits them, and facts about the file.
const GRADES = "Letters grade a figure by its weakest constant: M measured, V vendor, D fitted, R, I, U assumed.";

// The figures of a trace, main results first: [{name, value, text, note, grade}]. Unknown ones are omitted.
function figures(trace) {
  return [...answerFigures(trace), ...tracedFigures(trace)].filter((figure) => figure);
}

// Figures from the report at the end of the run or estimate.
function answerFigures(trace) {
  const { numbers, grades } = trace.answer;
  const given = (name, title, text, note) =>
    name in numbers && { name: title, value: numbers[name], text: text(numbers[name]), note, grade: grades[name] };
  const between = (name, shown) =>
    `${name}_low` in numbers && numbers[`${name}_low`] !== numbers[`${name}_high`]
      ? `, ${shown(numbers[`${name}_low`])} to ${shown(numbers[`${name}_high`])}`
      : "";
  const plain = (number) => significant(number);
  return [
    given("user_rate", "speed of a user", (rate) => `${plain(rate)} tokens/s`, perToken(trace)),
    limitFigure(trace),
    given("first_token_s", "first token", seconds, "from host to host"),
    given("usd", "cost", (usd) => `${plain(usd)} USD`, `a million tokens${between("usd", plain)}`),
    given("joules", "energy", (joules) => `${plain(joules)} J`, `a token${between("joules", plain)}`),
    given("prompt_rate", "prompts", (rate) => `${plain(rate)} tokens/s`, promptTime(trace)),
  ];
}

function perToken(trace) {
  const { decode } = trace.phases;
  if (!decode) return "";
  const cycles = decode.cycles / decode.passes;
  const users = new Set(trace.tokens.map((token) => token.user)).size;
  return `${whole(cycles)} cycles a token, ${seconds(cycles / trace.clock_hz)}${users > 1 ? ` for ${users} users` : ""}`;
}

function promptTime(trace) {
  const { prefill } = trace.phases;
  if (!prefill) return "";
  const cycles = prefill.cycles;
  return `${amount(cycles, "cycles")} in ${whole(prefill.passes)} ${prefill.passes === 1 ? "pass" : "passes"}`;
}

// The cause with the most cycles of a token, and the ratio of its cycles to the largest lower bound.
function limitFigure(trace) {
  const phase = trace.phases.decode ?? trace.phases.prefill;
  if (!phase || !phase.cycles) return null;
  const { numbers, bound, grades } = trace.answer;
  const most = Math.max(...phase.cycles_by);
  const ratio = numbers.bound_ratio;
  return {
    name: "limit",
    value: most / phase.cycles,
    text: `${DATA.causes[phase.cycles_by.indexOf(most)]}${COMPARED ? ` ${percent(most, phase.cycles)}` : ""}`,
    note:
      `${percent(most, phase.cycles)} of the cycles` +
      (bound && ratio
        ? `; ${significant(ratio)} × the bound, ${bound}${grades.bound ? ` (${grades.bound.grade})` : ""}`
        : ""),
  };
}

function tracedFigures(trace) {
  const found = [];
  const { decode, prefill, verify } = trace.phases;
  const cyclesOf = (phase) => phase.cycles / phase.passes;
  const add = (name, value, text, note) => found.push({ name, value, text, note });
  const time = (cycles) => seconds(cycles / trace.clock_hz);
  if (decode && (COMPARED || !("user_rate" in trace.answer.numbers)))
    add("a decoded token", cyclesOf(decode), `${whole(cyclesOf(decode))} cycles`, time(cyclesOf(decode)));
  if (prefill && !("prompt_rate" in trace.answer.numbers))
    add("prompts", prefill.cycles, amount(prefill.cycles, "cycles"), time(prefill.cycles));
  if (verify)
    add(
      "a pass over several tokens",
      cyclesOf(verify),
      `${whole(cyclesOf(verify))} cycles`,
      `${time(cyclesOf(verify))}, of one user`,
    );
  const slow = slowest(trace);
  if (slow >= 0) {
    const cycles = trace.tokens[slow].pass_cycles;
    add("slowest token", cycles, `${whole(cycles)} cycles`, `token ${slow}`);
  }
  if (decode)
    add(
      "hops of a token",
      decode.hops / decode.passes,
      amount(decode.hops / decode.passes, "words"),
      "words times links crossed",
    );
  const used = trace.stages.map((stage) => stage.used_fraction);
  if (used.length)
    add(
      "SRAM of the fullest PE",
      Math.max(...used),
      percent(Math.max(...used), 1),
      `stage ${used.indexOf(Math.max(...used))}`,
    );
  if (trace.crossing_bytes)
    add("to other wafers and the host", trace.crossing_bytes, amount(trace.crossing_bytes, "B"), "over the run");
  return found;
}

// A text about the cycles of a token above its lower bound; "" if the estimate reports no bound.
function limitText(trace) {
  const { numbers, bound, gap } = trace.answer;
  const { bound_cycles: cycles, bound_ratio: ratio } = numbers;
  if (!bound || !ratio || !gap.length) return "";
  const beyond = cycles - cycles / ratio;
  const named = gap.slice(0, 3).map((row) => `${row.cause} ${percent(row.cycles, beyond)} (${row.reason})`);
  return (
    `No software gets below ${whole(cycles / ratio)} cycles a token on this placement (bound: ${bound}). ` +
    `Beyond that: ${named.join("; ")}.`
  );
}

function limits(section) {
  const told = TRACES.map((trace) => [trace, limitText(trace)]).filter(([, text]) => text);
  section.append(
    ...told.map(([trace, text]) => el("p", { class: "say" }, COMPARED ? `${trace.letter}: ${text}` : text)),
  );
}

function gradeBadge(grade) {
  if (!grade) return null;
  const from = [grade.source, grade.weakest && `weakest constant: ${grade.weakest}`].filter((text) => text).join("; ");
  return el("abbr", { class: "grade", title: from }, grade.grade);
}

function runText(trace) {
  const prompt = trace.tokens.filter((token) => token.prompt).length;
  return [
    ...(trace.options.command === "estimate" ? ["an estimate"] : []),
    `mapping ${trace.mapping}`,
    `${several(trace.wafers, "wafer")} of ${trace.rows}×${trace.cols} PEs at ${significant(trace.clock_hz / 1e6)} MHz`,
    `${whole(prompt)} prompt and ${several(trace.tokens.length - prompt, "generated token")}`,
  ].join(", ");
}

function summary(section) {
  const named = TRACES.map((trace) => [trace, figures(trace)]);
  document.getElementById("title").textContent = TRACES.map((trace) => `${trace.model} on ${trace.wafer}`)
    .filter((text, at, all) => all.indexOf(text) === at)
    .join(" and ");
  for (const trace of TRACES) {
    section.append(
      el(
        "p",
        { class: "lead" },
        COMPARED ? el("b", {}, `${trace.letter} `) : null,
        el("span", { class: trace.complete ? "badge" : "badge warn" }, trace.complete ? "complete" : "incomplete"),
        " ",
        `${trace.name}: ${runText(trace)}.`,
      ),
    );
  }
  if (COMPARED) section.append(comparison(named.map(([, found]) => found)));
  else
    section.append(
      el(
        "div",
        { class: "cards" },
        ...named[0][1].map(({ name, text, note, grade }) =>
          el(
            "div",
            { class: "card" },
            el("span", { class: "what" }, name),
            el("strong", {}, text, gradeBadge(grade)),
            el("span", { class: "note" }, note),
          ),
        ),
      ),
    );
  if (TRACES.some((trace) => Object.keys(trace.answer.grades).length))
    section.append(el("p", { class: "note" }, GRADES));
  const notes = TRACES.flatMap((trace) => trace.notes.map((note) => (COMPARED ? `${trace.letter}: ${note}` : note)));
  if (notes.length) section.append(el("ul", { class: "notes" }, ...notes.map((note) => el("li", {}, note))));
}

function comparison([first, second]) {
  const names = [...new Set([...first, ...second].map(({ name }) => name))];
  const row = (name) => {
    const [before, after] = [first, second].map((found) => found.find((figure) => figure.name === name));
    return [name, before?.text ?? "–", after?.text ?? "–", before && after ? change(before.value, after.value) : ""];
  };
  return el(
    "div",
    {},
    el(
      "p",
      { class: "note" },
      TRACES[0].program_digest === TRACES[1].program_digest ? "Both ran the same Program." : "The Programs differ.",
    ),
    plainTable("Both runs", ["", "A", "B", "B against A"], names.map(row), [1, 2, 3]),
  );
}

function about(section) {
  for (const trace of TRACES) {
    section.append(
      COMPARED ? el("h3", {}, sideName(trace)) : "",
      facts([
        ["file", trace.trace],
        ["written by", trace.created_by],
        ["seed", String(trace.seed)],
        ["Program", trace.program_digest],
        ...(trace.mesh
          ? [
              [
                "mesh that programs see",
                `${trace.mesh[0]}×${trace.mesh[1]}: PEs are dead, links are those of the whole fabric`,
              ],
            ]
          : []),
        ...Object.entries(trace.options)
          .filter(([, value]) => value !== null)
          .map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]),
      ]),
    );
  }
}
