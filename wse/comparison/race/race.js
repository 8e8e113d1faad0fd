// The answer grows in each lane at the pace of its machine: a first token, then steps of some tokens, a fixed time apart.
const data = JSON.parse(document.getElementById("data").textContent);
const lanes = [...document.querySelectorAll(".lane")];
const clock = document.getElementById("clock");
const speed = document.getElementById("speed");
const button = document.getElementById("start");
let began = null;
let shown = 0;
let last = null;

function tokensAt(pace, seconds) {
  if (seconds < pace.first_token_s) return 0;
  const steps = Math.floor((seconds - pace.first_token_s) / pace.step_s);
  return 1 + Math.floor(steps * pace.tokens_per_step);
}

function draw(seconds) {
  clock.textContent = `${seconds.toFixed(2)} s`;
  data.lanes.forEach((lane, index) => {
    const tokens = Math.min(tokensAt(lane.pace, seconds), data.pieces.length);
    const element = lanes[index];
    const done = tokens === data.pieces.length;
    element.querySelector(".answer").textContent = data.pieces.slice(0, tokens).join("");
    element.querySelector(".state").textContent = done
      ? `${tokens.toLocaleString("en")} tokens in ${lane.done_s.toFixed(2)} s`
      : tokens
        ? `${tokens.toLocaleString("en")} tokens, ${Math.round(lane.tokens_per_s).toLocaleString("en")} a second`
        : seconds < lane.pace.queue_s
          ? "in the queue"
          : "on the way, and the prompt is read";
    element.classList.toggle("done", done);
    element.classList.toggle("waits", tokens === 0);
  });
}

function step(time) {
  if (last !== null) shown += ((time - last) / 1000) * Number(speed.value);
  last = time;
  draw(Math.min(shown, data.duration_s));
  began = shown < data.duration_s ? requestAnimationFrame(step) : null;
  if (began === null) button.textContent = "Again";
}

button.addEventListener("click", () => {
  if (began !== null) cancelAnimationFrame(began);
  shown = 0;
  last = null;
  button.textContent = "From the start";
  began = requestAnimationFrame(step);
});

speed.value = String(data.speed);
draw(0);
