// Animation of wavelets (32-bit words) on a line of PEs: words that move between routers, and words that
// wait in the queues of routers.
const MOVE = 5; // numbers per move: cycle, PE, direction out (0: into the PE), direction it came from, colour
const OPERATION = 3; // numbers per operation: PE, first cycle, cycle after the last
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const element = (id) => document.getElementById(id);

// Sort the moves of a case by PE: arrivals, operations, and the cycles in which words enter and leave
// each queue of its router.
function prepare(animation) {
  const { moves, operations, pes } = animation;
  const arrivals = Array.from({ length: pes }, () => []);
  const work = Array.from({ length: pes }, () => []);
  const queues = new Map();
  const queue = (pe, side, colour) => {
    const key = `${pe} ${side} ${colour}`;
    if (!queues.has(key)) queues.set(key, { pe, side, colour, came: [], went: [] });
    return queues.get(key);
  };
  let colours = 0;
  for (let at = 0; at < moves.length; at += MOVE) {
    const [cycle, pe, through, came, colour] = moves.slice(at, at + MOVE);
    colours = Math.max(colours, colour + 1);
    if (through === 0) arrivals[pe].push(cycle + DATA.ramp_cycles);
    else queue(pe + through, -through, colour).came.push(cycle + DATA.hop_cycles);
    if (came !== 0) {
      const went = queue(pe, came, colour).went;
      if (went[went.length - 1] !== cycle) went.push(cycle); // a word that leaves through two ports leaves once
    }
  }
  for (let at = 0; at < operations.length; at += OPERATION)
    work[operations[at]].push([operations[at + 1], operations[at + 2]]);
  return { ...animation, arrivals, work, colours, queues: [...queues.values()] };
}

// The number of cycles in an ascending list that are not after `cycle`.
function upTo(cycles, cycle) {
  let low = 0;
  let high = cycles.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (cycles[middle] <= cycle) low = middle + 1;
    else high = middle;
  }
  return low;
}

function firstMove(moves, cycle) {
  let low = 0;
  let high = moves.length / MOVE;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moves[middle * MOVE] < cycle) low = middle + 1;
    else high = middle;
  }
  return low * MOVE;
}

let shown = null;
let now = 0;
let frame = null;
let last = null;
let background = null;

const colourOfWord = (colour) => colourOf(seriesClass(colour));

function fit(canvas, height) {
  canvas.style.height = `${height}px`;
  const { context, width } = sized(canvas);
  return [context, width];
}

const LINE_HEIGHT = 170;
const MIDDLE = 92;
const LANE = 17; // distance of the lanes of words: above the PEs to higher indices, below them to lower ones

function drawLine() {
  const [pen, width] = fit(element("line"), LINE_HEIGHT);
  const step = width / shown.pes;
  const side = Math.max(2, Math.min(26, step * 0.62));
  const x = (pe) => (pe + 0.5) * step;
  const lane = (way) => (way > 0 ? MIDDLE - side / 2 - LANE : MIDDLE + side / 2 + LANE);
  pen.strokeStyle = colourOf("line");
  for (const way of [1, -1]) {
    pen.beginPath();
    pen.moveTo(x(0), lane(way));
    pen.lineTo(x(shown.pes - 1), lane(way));
    pen.stroke();
  }
  for (let pe = 0; pe < shown.pes; pe += 1) drawPe(pen, pe, x(pe), side, step);
  const dot = Math.max(1.3, Math.min(4.5, step * 0.16));
  drawWaiting(pen, x, lane, dot, step);
  const span = Math.max(DATA.hop_cycles, DATA.ramp_cycles);
  for (let at = firstMove(shown.moves, now - span); at < shown.moves.length; at += MOVE) {
    const [cycle, pe, through, came, colour] = shown.moves.slice(at, at + MOVE);
    if (cycle > now) break;
    const part = (now - cycle) / (through === 0 ? DATA.ramp_cycles : DATA.hop_cycles);
    if (part >= 1) continue;
    pen.fillStyle = colourOfWord(colour);
    pen.beginPath();
    if (through === 0) {
      const from = lane(came === 0 ? 1 : -came);
      pen.arc(x(pe), from + (MIDDLE - from) * part, dot, 0, 7);
    } else {
      const rise = came === 0 ? Math.min(1, part * 3) : 1;
      pen.arc(x(pe) + through * step * part, MIDDLE + (lane(through) - MIDDLE) * rise, dot, 0, 7);
    }
    pen.fill();
  }
}

function drawPe(pen, pe, x, side, step) {
  const top = MIDDLE - side / 2;
  const work = shown.work[pe];
  const works = work.some(([first, end]) => first <= now && now < end);
  const done = work.length > 0 && work.every(([, end]) => end <= now);
  pen.fillStyle = colourOf(done ? "done" : works ? "busy" : "track");
  pen.fillRect(x - side / 2, top, side, side);
  const arrived = shown.arrivals[pe].length;
  if (arrived && !done) {
    const part = upTo(shown.arrivals[pe], now) / arrived;
    pen.fillStyle = colourOf("done");
    pen.fillRect(x - side / 2, top + side * (1 - part), side, side * part);
  }
  pen.strokeStyle = works ? colourOf("text") : colourOf("quiet");
  pen.lineWidth = works ? 1.6 : 0.6;
  pen.strokeRect(x - side / 2, top, side, side);
  pen.lineWidth = 1;
  const every = Math.max(1, Math.ceil(26 / step));
  const end = shown.pes - 1;
  if (pe === end || (pe % every === 0 && end - pe >= every)) {
    pen.fillStyle = colourOf("quiet");
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText(String(pe), x, LINE_HEIGHT - 6);
  }
}

// Draw the words that wait in the queues of routers, as stacks at the sides from which they came.
function drawWaiting(pen, x, lane, dot, step) {
  const stacks = new Map();
  for (const { pe, side, colour, came, went } of shown.queues) {
    const count = upTo(came, now) - upTo(went, now);
    if (count <= 0) continue;
    const place = `${pe} ${side}`;
    const before = stacks.get(place) || 0;
    stacks.set(place, before + count);
    pen.fillStyle = colourOfWord(colour);
    const way = -side;
    for (let i = 0; i < Math.min(count, 8 - before); i += 1) {
      pen.beginPath();
      pen.arc(x(pe) + side * Math.min(step * 0.3, 9), lane(way) - way * (before + i) * (dot * 2 + 0.6), dot * 0.9, 0, 7);
      pen.fill();
    }
  }
}

const CHART_HEIGHT = 340;
const chartY = (cycle) => 8 + (cycle / Math.max(1, shown.cycles)) * (CHART_HEIGHT - 16);

// Draw the lines of all moves once. The line of the current cycle is drawn on a copy of this picture.
function drawBackground() {
  const canvas = element("chart");
  const [pen, width] = fit(canvas, CHART_HEIGHT);
  const step = width / shown.pes;
  const x = (pe) => (pe + 0.5) * step;
  pen.fillStyle = colourOf("busy");
  shown.work.forEach((work, pe) => {
    for (const [first, end] of work)
      pen.fillRect(x(pe) - step * 0.22, chartY(first), Math.max(0.5, step * 0.44), Math.max(0.5, chartY(end) - chartY(first)));
  });
  pen.lineWidth = Math.max(0.5, Math.min(1.4, (chartY(1) - chartY(0)) * 0.5));
  for (let colour = 0; colour < shown.colours; colour += 1) {
    pen.strokeStyle = colourOfWord(colour);
    pen.beginPath();
    for (let at = 0; at < shown.moves.length; at += MOVE) {
      const through = shown.moves[at + 2];
      if (shown.moves[at + 4] !== colour || through === 0) continue;
      pen.moveTo(x(shown.moves[at + 1]), chartY(shown.moves[at]));
      pen.lineTo(x(shown.moves[at + 1] + through), chartY(shown.moves[at] + DATA.hop_cycles));
    }
    pen.stroke();
  }
  background = pen.getImageData(0, 0, canvas.width, canvas.height);
}

function drawChart() {
  const canvas = element("chart");
  const pen = canvas.getContext("2d");
  pen.putImageData(background, 0, 0);
  pen.strokeStyle = colourOf("text");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(0, chartY(now));
  pen.lineTo(canvas.clientWidth, chartY(now));
  pen.stroke();
}

function draw() {
  element("place").value = String(Math.floor(now));
  element("cycle").textContent = `cycle ${Math.floor(now).toLocaleString("en")} of ${shown.cycles.toLocaleString("en")}`;
  drawLine();
  drawChart();
}

function pause() {
  if (frame !== null) cancelAnimationFrame(frame);
  frame = null;
  last = null;
  element("play").textContent = "Play";
}

let exact = 0; // current cycle of the animation; drawn in whole cycles if the user prefers reduced motion

function tick(time) {
  if (last !== null) exact += ((time - last) / 1000) * Number(element("speed").value);
  last = time;
  now = Math.min(calm.matches ? Math.floor(exact) : exact, shown.cycles);
  draw();
  if (exact >= shown.cycles) pause();
  else frame = requestAnimationFrame(tick);
}

function play() {
  if (now >= shown.cycles) now = 0;
  exact = now;
  draw();
  element("play").textContent = "Pause";
  frame = requestAnimationFrame(tick);
}

function go(cycle) {
  pause();
  now = Math.max(0, Math.min(shown.cycles, cycle));
  draw();
}

function legend() {
  const words = Array.from({ length: shown.colours }, (_, colour) => [seriesClass(colour), `colour ${colour}`]);
  const marks = [["square works", "a PE that works"], ["square done", "words that it has got, or done"], ...words];
  const parts = marks.flatMap(([look, text]) => [el("i", { class: look }), text]);
  element("legend").replaceChildren(...parts, ". Words go to the right above the PEs, to the left below; stacked ones wait.");
}

function redraw() {
  drawBackground();
  draw();
}

function choose(index) {
  pause();
  shown = prepare(DATA.animations[index]);
  now = 0;
  element("place").max = String(shown.cycles);
  legend();
  redraw();
}

onRedraw(() => shown && redraw());
theme();
if (DATA.animations.length) {
  element("case").addEventListener("change", (event) => choose(Number(event.target.value)));
  element("play").addEventListener("click", () => (frame === null ? play() : pause()));
  element("back").addEventListener("click", () => go(Math.ceil(now) - 1));
  element("forward").addEventListener("click", () => go(Math.floor(now) + 1));
  element("place").addEventListener("input", (event) => go(Number(event.target.value)));
  element("chart").addEventListener("click", (event) => {
    const { top, height } = element("chart").getBoundingClientRect();
    go(Math.round((((event.clientY - top) / height) * CHART_HEIGHT - 8) / (CHART_HEIGHT - 16) * shown.cycles));
  });
  addEventListener("resize", redraw);
  choose(0);
}
