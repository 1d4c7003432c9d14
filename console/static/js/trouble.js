// Says when the console itself does not answer.
let hiding = 0;

export function say(text) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { toast.hidden = true; }, 8000);
}

export function trouble(page) {
  page.addEventListener("htmx:sendError", () => say("The console does not answer. Is it still running?"));
  page.addEventListener("htmx:timeout", () => say("The console did not answer in time."));
  page.addEventListener("htmx:sseError", () => say("The connection to the console was lost; trying again."));
  page.addEventListener("htmx:sseOpen", () => { document.getElementById("toast").hidden = true; });
}
