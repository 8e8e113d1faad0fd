// Which tokens there are: their names, the slowest, a bar for each.
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

// The token of the longest pass that decoded one; the first of an answer comes at the end of its prompt.
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

function defaultToken(trace) {
  const shown = (at) => trace.tokens[at].schedule >= 0;
  return (
    decodedTokens(trace).find(shown) ??
    Math.max(
      0,
      trace.tokens.findIndex((token) => token.schedule >= 0),
    )
  );
}

// A bar a token, as high as its cycles: the slow ones stand out, a click chooses one. A token that waited longer than
// the longest pass that decodes, for prompts of others or its own, fills the whole height.
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
