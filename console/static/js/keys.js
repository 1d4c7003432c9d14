// Ctrl or Cmd with Enter sends a question; Escape, outside of fields, stops the live run.
export function keys(page) {
  page.addEventListener("keydown", (event) => {
    const field = event.target.closest("[data-submit]");
    if (field && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      field.form.requestSubmit();
    }
    const isTyping = event.target.closest("input, select, textarea, dialog");
    if (event.key === "Escape" && !isTyping) page.querySelector("[data-stop]")?.click();
  });
}
