// Create all sections of the page, and then mark it as ready to use.
const section = (name) => document.getElementById(name);

// Wait for all of `loads`, and then remove the note of a section that its data are being decoded.
async function ready(name, ...loads) {
  await Promise.all(loads);
  section(name).setAttribute("aria-busy", "false");
}

async function start() {
  theme();
  tendTips();
  tendSteering();
  summary(section("summary"));
  ready("summary");
  about(section("about"));
  ready("about");
  const nothing = (name, text) => section(name).append(el("p", { class: "note" }, text));
  limits(section("work"));
  if (TRACES.some((trace) => Object.keys(trace.phases).length)) new CycleMap(section("work"));
  else nothing("work", "No pass was recorded.");
  ready("work");
  const timed = TRACES.filter((trace) => trace.steps && trace.schedules.length);
  const timeline = timed.length
    ? new Timeline(section("timeline"), timed)
    : nothing("timeline", "No token with its steps was recorded.");
  const maps = mapNames().length
    ? new WaferMaps(section("wafer"))
    : nothing("wafer", "No map of the PEs was recorded.");
  const choose = (wafer) => {
    maps?.choose(wafer);
    section("wafer").scrollIntoView({ behavior: "smooth" });
  };
  section("placement").append(
    el("p", { class: "note" }, "Choose a wafer to see its PEs above."),
    el("div", { class: "pair" }, ...TRACES.map((trace) => placementOf(trace, choose))),
  );
  ready("placement");
  const steps = new StepTable(section("steps"));
  await Promise.all([
    ready("wafer", maps?.load(), maps?.replay?.load()),
    ready("timeline", timeline?.load()),
    ready("steps", steps.load()),
  ]);
  if (timeline)
    timeline.pinned = (trace, step, side) => {
      maps?.show(trace, step);
      steps.show(trace, step);
      if (step) maps?.replay?.seek(trace, side.token, side.step);
    };
  steps.pinned = (trace, step) => maps?.show(trace, step);
  experts(section("experts"));
  ready("experts");
  await tendAddress();
  requestAnimationFrame(() => setTimeout(usable));
}

start().catch((error) => {
  for (const busy of document.querySelectorAll('[aria-busy="true"]')) busy.dataset.state = "This could not be drawn.";
  document
    .querySelector("main")
    .prepend(el("p", { class: "badge warn", role: "alert" }, `This page could not be drawn: ${error.message}`));
  throw error;
});
