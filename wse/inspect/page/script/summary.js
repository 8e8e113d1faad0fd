// The run in figures, and what the file says of itself.
function figures(trace) {
  const clock = trace.clock_hz;
  const found = [];
  const decode = trace.phases.decode,
    prefill = trace.phases.prefill;
  const users = new Set(trace.tokens.map((token) => token.user)).size;
  if (decode) {
    const cycles = sum(decode.cycles_by) / decode.passes;
    found.push([
      "a decoded token",
      cycles,
      `${whole(cycles)} cycles`,
      cycles ? `${seconds(cycles / clock)}${users > 1 ? ` for ${users} users` : ""}` : "",
    ]);
    if (cycles) found.push(["speed of a user", clock / cycles, `${significant(clock / cycles)} tokens/s`, ""]);
    found.push([
      "hops of a token",
      decode.hops / decode.passes,
      amount(decode.hops / decode.passes, "words"),
      "words times links crossed",
    ]);
  }
  if (prefill) {
    const cycles = sum(prefill.cycles_by);
    found.push([
      "prompts",
      cycles,
      amount(cycles, "cycles"),
      `${seconds(cycles / clock)} in ${whole(prefill.passes)} ${prefill.passes === 1 ? "pass" : "passes"}`,
    ]);
  }
  const verify = trace.phases.verify;
  if (verify) {
    const cycles = sum(verify.cycles_by) / verify.passes;
    found.push([
      "a pass over several tokens",
      cycles,
      `${whole(cycles)} cycles`,
      `${seconds(cycles / clock)}, of one user`,
    ]);
  }
  const slow = slowest(trace);
  if (slow >= 0)
    found.push([
      "slowest token",
      trace.tokens[slow].pass_cycles,
      `${whole(trace.tokens[slow].pass_cycles)} cycles`,
      `token ${slow}`,
    ]);
  const used = trace.stages.map(
    (stage) => (sum(stage.stage_bytes) - stage.stage_bytes.at(-1)) / Math.max(1, sum(stage.stage_bytes)),
  );
  if (used.length)
    found.push([
      "SRAM of the fullest PE",
      Math.max(...used),
      percent(Math.max(...used), 1),
      `stage ${used.indexOf(Math.max(...used))}`,
    ]);
  if (trace.crossing_bytes)
    found.push([
      "to other wafers and the host",
      trace.crossing_bytes,
      amount(trace.crossing_bytes, "B"),
      "over the run",
    ]);
  return found;
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
        ...named[0][1].map(([name, , value, note]) =>
          el(
            "div",
            { class: "card" },
            el("span", { class: "what" }, name),
            el("strong", {}, value),
            el("span", { class: "note" }, note),
          ),
        ),
      ),
    );
  const notes = TRACES.flatMap((trace) => trace.notes.map((note) => (COMPARED ? `${trace.letter}: ${note}` : note)));
  if (notes.length) section.append(el("ul", { class: "notes" }, ...notes.map((note) => el("li", {}, note))));
}

function comparison([first, second]) {
  const names = [...new Set([...first, ...second].map(([name]) => name))];
  const row = (name) => {
    const [before, after] = [first, second].map((found) => found.find((figure) => figure[0] === name));
    return [name, before?.[2] ?? "–", after?.[2] ?? "–", before && after ? change(before[1], after[1]) : ""];
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
