// Shows a message when the console does not answer.
let hiding = 0;

export function showMessage(text) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { toast.hidden = true; }, 8000);
}

export function trouble(page) {
  page.addEventListener("htmx:sendError", () => showMessage("The console does not answer. Is it still running?"));
  page.addEventListener("htmx:timeout", () => showMessage("The console did not answer in time."));
  page.addEventListener("htmx:sseError", () => showMessage("The connection to the console was lost; reconnecting."));
  page.addEventListener("htmx:sseOpen", () => { document.getElementById("toast").hidden = true; });
}
