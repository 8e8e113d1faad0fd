// The tokens of a trace: their names, the slowest one, and a bar for each.
function tokenName(trace, at) {
  const token = trace.tokens[at],
    users = trace.tokens[0].user !== trace.tokens.at(-1).user;
  const text = token.text ? JSON.stringify(token.text) : token.id >= 0 ? `id ${token.id}` : "";
  return [
    `${token.prompt ? "prompt" : "generated"} ${text}`.trim(),
    users ? `user ${token.user}` : "",
    token.cycles ? `${whole(token.cycles)} cycles after the one before` : "",
  ]
    .filter((part) => part)
    .join(", ");
}

// Index of the token with the longest decode pass, or -1. The first token of an answer is not decoded:
// the last pass of its prompt generates it.
function slowest(trace) {
  const decoded = decodedTokens(trace);
  return decoded.reduce(
    (best, at) => (best < 0 || trace.tokens[at].pass_cycles > trace.tokens[best].pass_cycles ? at : best),
    -1,
  );
}

function decodedTokens(trace) {
  const decode = DATA.phases.indexOf("decode");
  return trace.tokens.map((token, at) => at).filter((at) => trace.tokens[at].phase === decode);
}

// The token to show first: the slowest one, or the first one whose steps are on the page.
function defaultToken(trace) {
  const shown = (at) => trace.tokens[at].schedule >= 0;
  const slow = slowest(trace);
  if (slow >= 0 && shown(slow)) return slow;
  return (
    decodedTokens(trace).find(shown) ??
    Math.max(
      0,
      trace.tokens.findIndex((token) => token.schedule >= 0),
    )
  );
}

// Draw a bar for each token, whose height is its cycles. A token that waited for prompts longer than the
// longest decode pass has a bar of full height.
function drawTokens(side) {
  const { trace, bars } = side;
  const { context, width, height } = sized(bars);
  const slow = slowest(trace);
  const most =
    slow < 0 ? Math.max(1, ...trace.tokens.map((token) => token.cycles)) : Math.max(1, trace.tokens[slow].pass_cycles);
  const each = width / Math.max(1, trace.tokens.length);
  const [plain, chosen, faint] = ["quiet", "accent", "line"].map(colourOf);
  trace.tokens.forEach((token, at) => {
    const size = Math.min(height, Math.max(3, (token.cycles / most) * (height - 6)));
    context.fillStyle = at === side.token ? chosen : token.prompt ? faint : plain;
    context.fillRect(
      at * each,
      height - (at === side.token ? Math.max(size, 9) : size),
      Math.max(1, each - (each > 3 ? 1 : 0)),
      height,
    );
  });
  bars.setAttribute(
    "aria-label",
    slow < 0
      ? "No decoded tokens."
      : `Cycles of ${trace.tokens.length} tokens; the slowest that was decoded is token ${slow} with ${whole(most)}.`,
  );
}

// A sentence that compares a decoded token with the median token, with the difference by kind of op.
function besideMedian(trace, at, schedule) {
  const { median } = trace;
  if (!median || !schedule || trace.tokens[at].phase !== DATA.phases.indexOf("decode")) return "";
  const name = at === slowest(trace) ? `Token ${at} is the slowest` : `Token ${at}`;
  if (at === median.token) return `${name}, and the median of all that were decoded.`;
  const more = schedule.cycles - median.cycles;
  if (!more) {
    const isMost = at === slowest(trace);
    return `Token ${at}: as many cycles as the median token, ${median.token}${isMost ? "; none takes more" : ""}.`;
  }
  const parts = schedule.by_kind
    .map((cycles, kind) => [kindName(trace, kind < trace.kinds.length ? kind : -1), cycles - median.by_kind[kind]])
    .filter(([, cycles]) => cycles)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const slots = schedule.kv_slots - median.kv_slots;
  const words = more > 0 ? ["more", "longer", slots > 0] : ["fewer", "shorter", slots < 0];
  const cache = words[2]
    ? `, whose cache is ${words[1]} (${several(schedule.kv_slots, "slot")} in use, ${median.kv_slots} there)`
    : "";
  return (
    `${name}: ${whole(Math.abs(more))} cycles ${words[0]} than the median token, ${median.token}` +
    `${whereOf(parts, more, cache)}.`
  );
}

// Differences by kind of op as text. `cache` is a remark on the KV cache, added after attention.
function whereOf(parts, more, cache) {
  if (!parts.length) return ", none of them in a step: they wait for each other";
  const isAttention = (kind) => kind.includes("attention");
  if (parts.length === 1 && parts[0][1] === more)
    return `, all in ${parts[0][0]}${isAttention(parts[0][0]) ? cache : ""}`;
  const named = parts.slice(0, 3).map(([kind, cycles]) => `${kind} ${signed(cycles)}${isAttention(kind) ? cache : ""}`);
  const rest = sum(parts.slice(3).map(([, cycles]) => cycles));
  if (rest) named.push(`others ${signed(rest)}`);
  const overlap = sum(parts.map(([, cycles]) => cycles)) === more ? "" : ", where steps overlap";
  return `, by kind of op ${named.join("; ")}${overlap}`;
}
