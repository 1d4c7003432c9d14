// Shows the time of a live run, counted from the moment at which this page began to follow it.
const began = new WeakMap();

function tick() {
  for (const shown of document.querySelectorAll("[data-elapsed]")) {
    const live = shown.closest("[data-live]");
    if (!live) continue;
    if (!began.has(live)) began.set(live, performance.now());
    shown.textContent = `${((performance.now() - began.get(live)) / 1000).toFixed(0)} s`;
  }
}

export function elapsed() {
  setInterval(tick, 500);
}
