// Mouse, touch and keyboard input on a timeline, which changes the window of cycles that is shown.
function windowKey(timeline, event) {
  const [from, to] = timeline.window,
    step = (to - from) / 8;
  const moves = {
    ArrowLeft: [-step, -step],
    ArrowRight: [step, step],
    Home: [-from, -from],
    End: [timeline.end - to, timeline.end - to],
    a: [-step, -step],
    d: [step, step],
  };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.shiftKey && event.key === "ArrowLeft") timeline.show(from + step, to - step);
  else if (event.shiftKey && event.key === "ArrowRight") timeline.show(from - step, to + step);
  else if (moves[event.key]) timeline.show(from + moves[event.key][0], to + moves[event.key][1]);
  else if ("+=w".includes(event.key)) timeline.zoom(0.5);
  else if ("-s".includes(event.key)) timeline.zoom(2);
  else if (event.key === "0" || event.key === "Escape") timeline.show(0, timeline.end);
  else return;
  event.preventDefault();
}

// Select a window of cycles by dragging on a canvas. Without dragging, moves call `hover` and presses
// call `click`.
function brush(timeline, canvas, left, shown, hover, click) {
  let began = null;
  const cycleAt = (x) => {
    const [from, to] = shown();
    return from + Math.min(Math.max((x - left()) / (canvas.clientWidth - left()), 0), 1) * (to - from);
  };
  canvas.addEventListener("pointerdown", (event) => {
    began = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (began === null) {
      hover?.(event);
      return;
    }
    timeline.chosen = [began, event.offsetX].map(cycleAt).sort((a, b) => a - b);
    hideTip();
    timeline.draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const wide = began !== null && Math.abs(event.offsetX - began) > 4;
    const [from, to] = [began ?? 0, event.offsetX].map(cycleAt).sort((a, b) => a - b);
    timeline.chosen = null;
    if (wide) timeline.show(from, to);
    else if (began !== null) click?.(event);
    began = null;
  });
  canvas.addEventListener("pointercancel", () => {
    began = null;
    timeline.chosen = null;
    timeline.draw();
  });
  canvas.addEventListener("pointerleave", hideTip);
}
