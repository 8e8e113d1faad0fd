// Mouse wheel and keys, which work in the same way on all pictures.
let scrolledAt = -Infinity;
let hovered = null; // the picture under the pointer: {canvas, act}
const SETTLED_MS = 300;

function tendSteering() {
  addEventListener("scroll", (event) => (scrolledAt = event.timeStamp), { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.target === document.body && hovered && /^[wasd+=0-]$/i.test(event.key)) hovered.act(event);
  });
}

// Zoom a picture with the wheel if the pointer rests on it. The page scrolls instead if it was scrolled a
// moment ago, or if the picture cannot zoom further. `zoom(event, factor)` returns whether it changed
// anything.
function steer(canvas, zoom, act) {
  canvas.addEventListener(
    "wheel",
    (event) => {
      const resting = document.activeElement === canvas || event.timeStamp - scrolledAt > SETTLED_MS;
      if (!event.deltaY || !(event.ctrlKey || resting)) return;
      if (zoom(event, event.deltaY < 0 ? 1.25 : 0.8) || event.ctrlKey) event.preventDefault();
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", act);
  canvas.addEventListener("pointerenter", () => (hovered = { canvas, act }));
  canvas.addEventListener("pointerleave", () => {
    if (hovered?.canvas === canvas) hovered = null;
  });
}
