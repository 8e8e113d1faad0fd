// Wheel and keys on pictures, the same for all of them.
let scrolledAt = -Infinity;
let hovered = null; // {canvas, act} of the picture that the pointer is on
const SETTLED_MS = 300;

function tendSteering() {
  addEventListener("scroll", (event) => (scrolledAt = event.timeStamp), { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.target === document.body && hovered && /^[wasd+=0-]$/i.test(event.key)) hovered.act(event);
  });
}

// The wheel zooms a picture on which the pointer rests; a page that is being scrolled past it scrolls on, and so does
// one whose picture cannot zoom further. `zoom(event, factor)` says whether it did anything.
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
